package experiment

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseObjective(t *testing.T) {
	for text, want := range map[string]Objective{
		"ttft_p95=1s":                  {TTFT, 0.95, time.Second},
		"itl_p99=100ms":                {ITL, 0.99, 100 * time.Millisecond},
		"tpot_p50=30ms":                {TPOT, 0.5, 30 * time.Millisecond},
		"duration_p99.9=1m30s":         {Duration, 0.999, 90 * time.Second},
		"ttft_from_schedule_p95=1.5s":  {TTFTFromSchedule, 0.95, 1500 * time.Millisecond},
		"ttft_from_schedule_p7=0.25ms": {TTFTFromSchedule, 0.07, 250 * time.Microsecond},
	} {
		got, err := ParseObjective(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if again, err := ParseObjective(got.String()); err != nil || again != got {
			t.Errorf("%s is written as %s, which reads as %v, %v", text, got, again, err)
		}
	}
}

func TestParseObjectivesErrors(t *testing.T) {
	_, err := ParseObjectives([]string{
		"ttft_p95=1s", "", "ttft=1s", "ttft_p95", "tftt_p0=5", "itl_p95=-1s", "ttft_p95=2s", "itl_pp=1s",
	})
	const latencies = "ttft, ttft_from_schedule, itl, tpot, duration"
	want := strings.Join([]string{
		`objective "": not of the form "ttft_p95=1s": a latency (` + latencies + `), a percentile and a duration`,
		`objective "ttft=1s": not of the form "ttft_p95=1s": a latency (` + latencies + `), a percentile and a duration`,
		`objective "ttft_p95": not of the form "ttft_p95=1s": a latency (` + latencies + `), a percentile and a duration`,
		`objective "tftt_p0=5": unknown latency "tftt": it can be ` + latencies,
		`"0" is not a percentile between 0 and 100, as 50, 95 or 99.9`,
		`"5" is not a duration above 0, as "800ms" or "1.5s"`,
		`objective "itl_p95=-1s": "-1s" is not a duration above 0, as "800ms" or "1.5s"`,
		`objective "ttft_p95=2s": ttft_p95 is bounded twice`,
		`objective "itl_pp=1s": "p" is not a percentile between 0 and 100, as 50, 95 or 99.9`,
	}, "\n")
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestObjectiveJSON(t *testing.T) {
	list := []Objective{{TTFT, 0.95, time.Second}}
	data, err := json.Marshal(list)
	if err != nil || string(data) != `["ttft_p95=1s"]` {
		t.Fatalf("%s, %v", data, err)
	}
	var again []Objective
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list, again); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}
