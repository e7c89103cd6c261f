package relay

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRestart(t *testing.T) {
	nan := math.NaN()
	const (
		same      = sameProcess
		restarted = restarted
		several   = severalProcesses
	)
	// settled is what it takes until an address is believed again.
	settled := func(tail ...verdict) []verdict {
		var v []verdict
		for range settleSamples - 1 {
			v = append(v, several)
		}
		return append(v, tail...)
	}
	times := func(n int, start float64) (starts []float64) {
		for range n {
			starts = append(starts, start)
		}
		return starts
	}
	tests := []struct {
		name   string
		starts []float64
		tokens []float64 // where nil, NaN throughout
		want   []verdict
	}{
		{name: "nothing happens", starts: []float64{100, 100, 100}, want: []verdict{same, same, same}},
		{name: "restart", starts: []float64{100, 200, 200, 200}, want: []verdict{same, same, restarted, same}},
		{name: "two restarts", starts: []float64{100, 200, 200, 300, 300}, want: []verdict{same, same, restarted, same, restarted}},
		{name: "restart loop counts when it ends", starts: []float64{100, 200, 300, 300}, want: []verdict{same, same, same, restarted}},
		{name: "start time counts, not tokens", starts: []float64{100, 100, 100}, tokens: []float64{900, 0, 900}, want: []verdict{same, same, same}},
		{name: "two servers in turn", starts: []float64{100, 200, 100, 200, 100}, want: []verdict{same, same, several, several, several}},
		{name: "start time falls", starts: []float64{200, 100}, want: []verdict{same, several}},
		{name: "believed again", starts: append([]float64{200}, times(settleSamples+1, 100)...), want: append([]verdict{same, several}, settled(same)...)},
		{
			name:   "restart after it is believed again",
			starts: append(append([]float64{200}, times(settleSamples+1, 100)...), 300, 300),
			want:   append([]verdict{same, several}, settled(same, same, restarted)...),
		},

		{name: "tokens grow", tokens: []float64{0, 10, 20}, want: []verdict{same, same, same}},
		{name: "tokens fall", tokens: []float64{1000, 40, 50}, want: []verdict{same, same, restarted}},
		{name: "tokens fall to nothing", tokens: []float64{1000, 0, 0, 0}, want: []verdict{same, same, restarted, same}},
		{name: "tokens fall and come back", tokens: []float64{1000, 40, 1000, 1010, 1020}, want: []verdict{same, same, same, same, same}},
		{name: "two servers in turn, by tokens", tokens: []float64{1000, 40, 1010, 40, 1020, 50}, want: []verdict{same, same, same, several, several, several}},
		{name: "start time vanishes", starts: []float64{100, nan, nan}, tokens: []float64{1000, 0, 0}, want: []verdict{same, same, restarted}},
		{name: "nothing to tell by", starts: []float64{nan, nan}, tokens: []float64{nan, nan}, want: []verdict{same, same}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r restartWatch
			var got []verdict
			for i := range max(len(tt.starts), len(tt.tokens)) {
				start, tokens := nan, nan
				if tt.starts != nil {
					start = tt.starts[i]
				}
				if tt.tokens != nil {
					tokens = tt.tokens[i]
				}
				got = append(got, r.observe(start, tokens))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
