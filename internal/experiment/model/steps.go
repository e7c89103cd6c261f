package model

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// trace is the engine's steps of one level, as the arrival of tokens shows them: tokens that arrive together are of
// one step, and a request that decodes has one token in each.
type trace struct {
	level    int
	origin   time.Time // the first token
	requests []*traced
	steps    []*seenStep
}

// traced is a request and, by index, the steps of its life.
type traced struct {
	*experiment.Request
	prompt      int // tokens
	sent        int // the step under way when it was sent
	first, last int
}

// seenStep is a step that some token arrived from.
type seenStep struct {
	end      float64 // seconds since the trace's origin
	finished []*traced
	work     vllmsim.Work
	tokens   int // that arrived, first tokens not counted
	waiting  int // requests that had been there for some steps, and had their first token later
}

// whole reports whether every request that decodes had its token: else the step was not made out rightly.
func (s *seenStep) whole() bool { return s.tokens == s.work.Decoding }

// running is how many requests had a token in the step.
func (s *seenStep) running() int { return s.work.Decoding + len(s.finished) }

// stamp is the arrival of one token.
type stamp struct {
	at      float64
	request *traced
	number  int // 0 is the first
}

// traceLevel makes out the steps of a level, its warm-up included; nil if it shows none.
func traceLevel(run *experiment.Run, index int) *trace {
	t := &trace{level: index}
	var stamps []stamp
	for r := range run.Each(index) {
		if r.FirstToken.IsZero() {
			continue
		}
		if t.origin.IsZero() {
			t.origin = r.FirstToken
		}
		request := &traced{Request: r, prompt: r.PromptTokens, first: -1, last: -1}
		if request.prompt < 0 {
			request.prompt = run.Plan.Levels[index].PromptTokens
		}
		t.requests = append(t.requests, request)
		number := 0
		r.EachToken(func(at time.Time) {
			if !r.Late(number) {
				stamps = append(stamps, stamp{at.Sub(t.origin).Seconds(), request, number})
			}
			number++
		})
	}
	if len(stamps) == 0 {
		return nil
	}
	t.group(stamps)
	t.count()
	return t
}

// group puts stamps into steps. A pause ends a step, and so does the next token of a request that has one already.
func (t *trace) group(stamps []stamp) {
	slices.SortFunc(stamps, func(a, b stamp) int { return cmp.Compare(a.at, b.at) })
	pause := t.pause()
	from := 0
	for i := 1; i <= len(stamps); i++ {
		if i < len(stamps) && stamps[i].at-stamps[i-1].at <= pause && stamps[i].request.last != len(t.steps) {
			stamps[i].request.last = len(t.steps)
			continue
		}
		t.add(stamps[from:i])
		if i < len(stamps) {
			stamps[i].request.last = len(t.steps)
		}
		from = i
	}
}

// pause is how long no token arrives within a step, at most: a millisecond, or a quarter of a short step.
func (t *trace) pause() float64 {
	var gaps []float64
	for _, r := range t.requests {
		for _, gap := range r.Gaps {
			gaps = append(gaps, gap.Seconds())
		}
	}
	if len(gaps) == 0 {
		return 1e-3
	}
	slices.Sort(gaps)
	return max(1e-3, stat.Quantile(0.1, stat.Empirical, gaps, nil)/4)
}

func (t *trace) add(stamps []stamp) {
	s := &seenStep{}
	at := make([]float64, len(stamps))
	for i, stamp := range stamps {
		at[i] = stamp.at
		stamp.request.last = len(t.steps)
		if stamp.number == 0 {
			stamp.request.first = len(t.steps)
			s.finished = append(s.finished, stamp.request)
			continue
		}
		s.tokens++
		s.work.Context += stamp.request.prompt + stamp.number
	}
	s.end = stat.Quantile(0.5, stat.Empirical, at, nil)
	slices.SortStableFunc(s.finished, func(a, b *traced) int { return a.Sent.Compare(b.Sent) })
	t.steps = append(t.steps, s)
}

// count tells each step how many requests decoded in it, those between their first and their last token, and how many
// waited. A scheduler may learn of a request two steps late; who has waited for no longer has not waited for a place.
func (t *trace) count() {
	const unnoticed = 3 // steps
	decoding, waiting := make([]int, len(t.steps)+1), make([]int, len(t.steps)+1)
	for _, r := range t.requests {
		if r.first < 0 {
			continue
		}
		decoding[r.first+1]++
		decoding[min(r.last+1, len(t.steps))]--
		r.sent, _ = slices.BinarySearchFunc(t.steps, r.Sent.Sub(t.origin).Seconds(), func(s *seenStep, at float64) int {
			return cmp.Compare(s.end, at)
		})
		if known := r.sent + unnoticed; known < r.first {
			waiting[known]++
			waiting[r.first]--
		}
	}
	d, w := 0, 0
	for i, s := range t.steps {
		d, w = d+decoding[i], w+waiting[i]
		s.work.Decoding, s.waiting = d, w
	}
}

// prefill tells each step how many prompt tokens it computed and how many requests were new in it, if a step has a
// budget of tokens. First come, first served: of the prompts that end in a step only the first can have begun before.
func (t *trace) prefill(budget int) {
	for _, s := range t.steps {
		s.work.Prefill, s.work.Admitted = 0, 0
	}
	for i, s := range t.steps {
		if len(s.finished) == 0 {
			continue
		}
		for _, r := range s.finished[1:] {
			s.work.Prefill += r.prompt - max(0, r.CachedTokens)
			s.work.Admitted++
		}
		t.spread(s.finished[0], i, budget)
	}
}

// spread puts a prompt into as few steps as hold it, the last of them given: each is filled but the last.
func (t *trace) spread(r *traced, last, budget int) {
	room := func(i int) int { return max(1, budget-t.steps[i].work.Decoding-t.steps[i].work.Prefill) }
	tokens := r.prompt - max(0, r.CachedTokens)
	first := last
	for total := room(last); total < tokens && first > 0 && t.linked(first); total += room(first) {
		first--
	}
	t.steps[first].work.Admitted++
	for i := first; i < last; i++ {
		chunk := min(tokens, room(i))
		t.steps[i].work.Prefill += chunk
		tokens -= chunk
	}
	t.steps[last].work.Prefill += tokens
}

// linked reports whether a step followed the one before it at once: some request had a token in both.
func (t *trace) linked(i int) bool { return i > 0 && t.steps[i].work.Decoding > 0 }

// leastBudget is what one step was seen to compute, at least.
func (t *trace) leastBudget() int {
	least := 0
	for _, s := range t.steps {
		tokens := s.work.Decoding
		for i, r := range s.finished {
			if i > 0 {
				tokens += r.prompt - max(0, r.CachedTokens)
			}
		}
		if s.whole() {
			least = max(least, tokens)
		}
	}
	return least
}

// observation is a step whose time is known.
type observation struct {
	seconds float64
	work    vllmsim.Work
}

// busy lists the steps that followed another at once, so that the time between their tokens is their own.
func (t *trace) busy() (all []observation) {
	for i := 1; i < len(t.steps); i++ {
		s, before := t.steps[i], t.steps[i-1]
		if t.linked(i) && s.whole() && before.whole() {
			all = append(all, observation{s.end - before.end, s.work})
		}
	}
	return all
}

// woken is what an idle engine did at once for a request that had just come: the TTFT is that and the way there.
type woken struct {
	observation
	steps   int // more than one for a prompt beyond the budget
	request *traced
	alone   bool // no other request was on its way or served meanwhile, so that the way there is its own
}

// idle lists what was done for requests that found the engine idle, by the arrival of tokens and, where the server
// gave one, its own account of how long they waited.
func (t *trace) idle(budget int) (all []woken) {
	const atOnce = time.Millisecond
	for i, s := range t.steps {
		if s.work.Decoding > 0 || len(s.finished) == 0 || s.work.Prefill > budget && len(s.finished) > 1 {
			continue
		}
		r := s.finished[0]
		ttft := r.FirstToken.Sub(r.Sent).Seconds()
		if r.SentLate > prober.SoundError || r.Late(0) || i > 0 && t.steps[i-1].end > s.end-ttft || r.Server != nil && r.Server.Queue > atOnce {
			continue
		}
		all = append(all, woken{observation{ttft, s.work}, (s.work.Prefill + budget - 1) / budget, r, t.alone(r)})
	}
	return all
}

// alone reports whether no other request of the level was under way between a request's start and its first token.
func (t *trace) alone(r *traced) bool {
	return !slices.ContainsFunc(t.requests, func(other *traced) bool {
		return other != r && other.Sent.Before(r.FirstToken) && other.LastToken.After(r.Sent)
	})
}

// mostRunning is the highest number of requests that had a token in one step.
func (t *trace) mostRunning() (most int) {
	for _, s := range t.steps {
		most = max(most, s.running())
	}
	return most
}

// places is the highest number of requests that ran at once, if others waited meanwhile though the steps had tokens
// left; else 0: nothing but the load and the budget kept more from running.
func (t *trace) places(budget int) int {
	const fewSteps, nearly = 20, 0.9
	most, waited, full := t.mostRunning(), 0, 0
	for _, s := range t.steps {
		if s.waiting == 0 || float64(s.work.Prefill+s.work.Decoding) >= nearly*float64(budget) {
			continue
		}
		waited++
		if float64(s.running()) >= nearly*float64(most) {
			full++
		}
	}
	if full < fewSteps || 2*full < waited {
		return 0
	}
	return most
}

// joined counts the requests that came while others decoded and could have joined the next step, for it had room, by
// whether they did or joined the one after that. Who came just when a step began may have joined even that one, and
// does not count.
func (t *trace) joined(budget, runningCap int) (next, afterNext int) {
	const full, just = 0.9, 2e-3
	for _, r := range t.requests {
		if r.first < 0 || r.SentLate > prober.SoundError || r.sent == 0 || r.sent+2 >= len(t.steps) || r.prompt > budget/2 || !t.linked(r.sent) || !t.linked(r.sent+1) {
			continue
		}
		s := t.steps[r.sent+1]
		if float64(s.work.Prefill+s.work.Decoding) >= full*float64(budget) || float64(s.running()) >= full*float64(runningCap) {
			continue
		}
		underWay := r.Sent.Sub(t.origin).Seconds() - t.steps[r.sent-1].end
		if underWay < just || t.steps[r.sent].end-t.steps[r.sent-1].end < underWay+just {
			continue
		}
		switch r.first - r.sent {
		case 0, 1:
			next++
		case 2:
			afterNext++
		}
	}
	return next, afterNext
}

// meanAbsolute is the mean of absolute values.
func meanAbsolute(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return floats.Norm(values, 1) / float64(len(values))
}
