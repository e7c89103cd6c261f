package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Recording is what the panels of a dashboard show over a time range.
type Recording struct {
	From   float64         `json:"from"` // Unix seconds
	To     float64         `json:"to"`
	Title  string          `json:"title"`
	Panels []RecordedPanel `json:"panels"`
	Events []RecordedEvent `json:"events"`
}

// RecordedPanel is a panel as it is in the file, and the answers to its queries in their order.
type RecordedPanel struct {
	Panel   json.RawMessage `json:"panel"`
	Answers [][]Series      `json:"answers"`
}

// RecordedEvent is the answer to the query of an annotation.
type RecordedEvent struct {
	Annotation
	Series []Series `json:"series"`
}

// Record evaluates every expression of a dashboard.
func Record(ctx context.Context, p Prometheus, d Dashboard, v Values, from, to time.Time, step time.Duration) (*Recording, error) {
	r := &Recording{From: float64(from.Unix()), To: float64(to.Unix()), Title: d.Title}
	for _, panel := range d.Panels {
		recorded := RecordedPanel{Panel: panel.Raw}
		for _, target := range panel.Targets {
			series, err := p.evaluate(ctx, target, v, from, to, step)
			if err != nil {
				return nil, fmt.Errorf("%s, %s %s: %w", d.Title, panel.Title, target.RefID, err)
			}
			recorded.Answers = append(recorded.Answers, series)
		}
		r.Panels = append(r.Panels, recorded)
	}
	for _, a := range d.Annotations.List {
		series, err := p.Range(ctx, v.Fill(a.Expr), from, to, step)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", d.Title, a.Name, err)
		}
		r.Events = append(r.Events, RecordedEvent{a, series})
	}
	return r, nil
}

func (p Prometheus) evaluate(ctx context.Context, t Target, v Values, from, to time.Time, step time.Duration) ([]Series, error) {
	if t.Instant {
		return p.Instant(ctx, v.Fill(t.Expr), to)
	}
	return p.Range(ctx, v.Fill(t.Expr), from, to, step)
}
