package analyze

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// The server of these tests answers after a first-token time and then in even gaps, both drawn by a function of how
// many requests are in flight. It is no model of a server: it only makes runs whose figures are known.
type server struct {
	ttft func(inFlight, i int, random *rand.Rand) float64 // seconds
	gap  func(inFlight, i int, random *rand.Rand) float64
}

// start of every run of these tests.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// run makes the run of a plan, with every level full and every request a success.
func (s server) run(plan experiment.Plan) *experiment.Run {
	run := &experiment.Run{Plan: plan, Facts: experiment.Facts{Virtual: "test"}}
	random := rand.New(rand.NewPCG(plan.Seed, 1))
	at := epoch
	for i, l := range plan.Levels {
		end := s.level(run, i, l, at, random)
		run.Levels = append(run.Levels, experiment.LevelRun{Start: at, End: end, Empty: end, Client: experiment.Client{GoMaxProcs: 2, CPUSeconds: 0.1}})
		at = end.Add(2 * time.Second)
	}
	return run
}

type ends []time.Time

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].Before(e[j]) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(time.Time)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s server) level(run *experiment.Run, index int, l experiment.Level, at time.Time, random *rand.Rand) (end time.Time) {
	var busy ends
	due := at
	for i := range l.Requests {
		if l.Closed() {
			if len(busy) == l.Concurrency {
				due = heap.Pop(&busy).(time.Time)
			}
		} else {
			for len(busy) > 0 && !busy[0].After(due) {
				heap.Pop(&busy)
			}
		}
		r := s.answer(index, l, i, len(busy)+1, due, random)
		heap.Push(&busy, r.Ended)
		if r.Ended.After(end) {
			end = r.Ended
		}
		run.Requests = append(run.Requests, r)
		if !l.Closed() {
			due = due.Add(seconds(random.ExpFloat64() / l.Rate))
		}
	}
	return end
}

func (s server) answer(index int, l experiment.Level, i, inFlight int, due time.Time, random *rand.Rand) experiment.Request {
	first := due.Add(seconds(s.ttft(inFlight, i, random)))
	r := experiment.Request{Level: index, Result: prober.Result{
		Probe:     &prober.Probe{Scheduled: due, Started: due},
		Connected: due, Sent: due, Headers: first, FirstToken: first, FirstTokens: 1, OutputTokens: l.OutputTokens, PromptTokens: l.PromptTokens, CachedTokens: -1, Status: 200,
	}}
	r.LastToken = first
	for range l.OutputTokens - 1 {
		gap := seconds(s.gap(inFlight, i, random))
		r.Gaps = append(r.Gaps, gap)
		r.LastToken = r.LastToken.Add(gap)
	}
	r.Ended = r.LastToken
	return r
}

// steps is closed-loop levels of some concurrencies.
func steps(requests int, concurrencies ...int) []experiment.Level {
	var levels []experiment.Level
	for _, c := range concurrencies {
		levels = append(levels, experiment.Level{Concurrency: c, PromptTokens: 512, OutputTokens: 128, Requests: max(requests, 4*c)})
	}
	return levels
}

// noisy is a time that varies by a fifth.
func noisy(mean float64) func(int, int, *rand.Rand) float64 {
	return func(_, _ int, random *rand.Rand) float64 { return mean * (0.8 + 0.4*random.Float64()) }
}
