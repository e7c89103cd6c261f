package experiment

import (
	"encoding/json"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// Request is one request of a run, a line of requests.jsonl. Times are on a clock that is the wall clock at the start
// of the run and does not step with it later. Scheduled is when it was due; of a closed loop, when the one before it
// ended.
type Request struct {
	Level int // index into the plan's levels
	prober.Result
}

// Latency is the latency that an indicator names. ITL is not one value: see [prober.Result.ITL].
func (r *Request) Latency(i Indicator) (l prober.Latency, known bool) {
	switch i {
	case TTFT:
		return r.TTFT()
	case TTFTFromSchedule:
		return r.TTFTFromSchedule()
	case TPOT:
		return r.TPOT()
	case Duration:
		return r.Duration()
	}
	return l, false
}

// EachToken calls a function with the time of every token event.
func (r *Request) EachToken(visit func(at time.Time)) {
	if r.FirstToken.IsZero() {
		return
	}
	at := r.FirstToken
	visit(at)
	for _, gap := range r.Gaps {
		at = at.Add(gap)
		visit(at)
	}
}

// requestJSON is a line of requests.jsonl. The level comes first: see [line.level].
type requestJSON struct {
	Level int `json:"level"`
	prober.ResultJSON
}

// MarshalJSON implements json.Marshaler.
func (r *Request) MarshalJSON() ([]byte, error) {
	return json.Marshal(requestJSON{r.Level, r.JSON()})
}

// UnmarshalJSON implements json.Unmarshaler. Runs of before 0.2 tell which token events were read late, but not how
// late: then an event may have come at any time since the one before it.
func (r *Request) UnmarshalJSON(data []byte) error {
	line := struct {
		requestJSON
		Late     []int `json:"late_tokens"`
		SentLate bool  `json:"sent_late"`
	}{}
	if err := json.Unmarshal(data, &line); err != nil {
		return err
	}
	waited := max(0, line.FirstToken.Sub(line.Sent).Seconds())
	for _, token := range line.Late {
		if line.Early == nil {
			line.Early = make(map[int]float64, len(line.Late))
		}
		if token == 0 {
			line.Early[0] = waited
		} else if token > 0 && token <= len(line.Gaps) {
			line.Early[token] = line.Gaps[token-1]
		}
	}
	if line.SentLate {
		line.ResultJSON.SentLate = waited
	}
	result, err := line.ResultJSON.Result()
	if err == nil {
		r.Level, r.Result = line.Level, *result
	}
	return err
}

// AsStored is a result as it is read again from where it was stored, to the microsecond: so figures of a run are the
// same before and after.
func AsStored(r prober.Result) prober.Result {
	j := r.JSON()
	if stored, err := j.Result(); err == nil {
		return *stored
	}
	return r
}
