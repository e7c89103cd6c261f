package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Prometheus asks the HTTP API at a base URL.
type Prometheus string

// Series is one series of an answer.
type Series struct {
	Metric map[string]string `json:"metric"`
	// Points are its floats, Histograms its native histograms; one of the two is empty.
	Points     []Point       `json:"values,omitempty"`
	Histograms []HistogramAt `json:"histograms,omitempty"`
}

// Point is a float and when it was, in Unix seconds.
type Point struct{ Time, Value float64 }

// MarshalJSON writes it as the API does.
func (p Point) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]any{p.Time, strconv.FormatFloat(p.Value, 'g', -1, 64)})
}

// UnmarshalJSON reads what the API writes: [time, "value"].
func (p *Point) UnmarshalJSON(text []byte) error {
	var value string
	if err := json.Unmarshal(text, &[2]any{&p.Time, &value}); err != nil {
		return err
	}
	var err error
	p.Value, err = strconv.ParseFloat(value, 64)
	return err
}

// HistogramAt is a native histogram, kept as the API writes it, and when it was.
type HistogramAt = json.RawMessage

// Instant evaluates an expression at one time.
func (p Prometheus) Instant(ctx context.Context, expr string, at time.Time) ([]Series, error) {
	return p.query(ctx, "query", url.Values{"query": {expr}, "time": {unix(at)}})
}

// Range evaluates an expression at every step of a time range.
func (p Prometheus) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	return p.query(ctx, "query_range", url.Values{
		"query": {expr}, "start": {unix(from)}, "end": {unix(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	})
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

func (p Prometheus) query(ctx context.Context, kind string, values url.Values) ([]Series, error) {
	var answer struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := p.get(ctx, kind, values, &answer); err != nil {
		return nil, fmt.Errorf("evaluating %q: %w", values.Get("query"), err)
	}
	switch answer.ResultType {
	case "matrix":
		var series []Series
		return series, json.Unmarshal(answer.Result, &series)
	case "vector":
		return vector(answer.Result)
	default:
		return nil, fmt.Errorf("evaluating %q: a %s is no series", values.Get("query"), answer.ResultType)
	}
}

// vector makes an instant answer one of ranges with one point.
func vector(result json.RawMessage) ([]Series, error) {
	var samples []struct {
		Metric    map[string]string
		Value     *Point
		Histogram HistogramAt
	}
	if err := json.Unmarshal(result, &samples); err != nil {
		return nil, err
	}
	var all []Series
	for _, s := range samples {
		series := Series{Metric: s.Metric}
		if s.Value != nil {
			series.Points = []Point{*s.Value}
		} else {
			series.Histograms = []HistogramAt{s.Histogram}
		}
		all = append(all, series)
	}
	return all, nil
}

// LabelValues are the values of a label among the series that a selector matches.
func (p Prometheus) LabelValues(ctx context.Context, selector, label string) ([]string, error) {
	var values []string
	err := p.get(ctx, "label/"+label+"/values", url.Values{"match[]": {selector}}, &values)
	return values, err
}

// Exemplars counts the exemplars behind an expression.
func (p Prometheus) Exemplars(ctx context.Context, expr string, from, to time.Time) (int, error) {
	var series []struct{ Exemplars []json.RawMessage }
	err := p.get(ctx, "query_exemplars", url.Values{"query": {expr}, "start": {unix(from)}, "end": {unix(to)}}, &series)
	n := 0
	for _, s := range series {
		n += len(s.Exemplars)
	}
	return n, err
}

func (p Prometheus) get(ctx context.Context, path string, values url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, string(p)+"/api/v1/"+path+"?"+values.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return nil
}
