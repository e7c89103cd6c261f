package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// recording is what e2e/dashboards/record writes.
type recording struct {
	From, To float64 // Unix seconds
	Title    string
	Panels   []*panel
	Events   []event
}

// panel is a panel as Grafana's JSON has it, and the answers to its queries.
type panel struct {
	Panel struct {
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ LegendFormat string }
		FieldConfig struct {
			Defaults struct {
				Unit       string
				Decimals   *int
				Max        *float64
				Mappings   []mapping
				Thresholds *thresholds
				Custom     struct {
					DrawStyle   string
					AxisSoftMax float64
					Stacking    struct{ Mode string }
				}
			}
			Overrides []override
		}
		Transformations []struct {
			ID      string
			Options struct {
				IndexByName  map[string]int
				RenameByName map[string]string
			}
		}
		Options struct {
			SortBy []struct {
				DisplayName string
				Desc        bool
			}
		}
	}
	Answers [][]series
}

type (
	thresholds struct{ Steps []step }
	step       struct {
		Value *float64
		Color string
	}
	mapping struct {
		Options struct {
			From, To float64
			Result   struct{ Text, Color string }
		}
	}
	override struct {
		Matcher    struct{ ID, Options string }
		Properties []struct {
			ID    string
			Value json.RawMessage
		}
	}
	event struct {
		IconColor       string
		UseValueForTime bool
		Series          []series
	}
)

// series is one series of an answer: points over time, or native histograms over time.
type series struct {
	Metric     map[string]string
	Values     []point
	Histograms []histogram
}

type point struct{ time, value float64 }

func (p *point) UnmarshalJSON(text []byte) error {
	var value string
	if err := json.Unmarshal(text, &[2]any{&p.time, &value}); err != nil {
		return err
	}
	var err error
	p.value, err = strconv.ParseFloat(value, 64)
	return err
}

type histogram struct {
	time    float64
	buckets []bucket
}

type bucket struct{ low, high, count float64 }

func (h *histogram) UnmarshalJSON(text []byte) error {
	var body struct{ Buckets [][4]any }
	if err := json.Unmarshal(text, &[2]any{&h.time, &body}); err != nil {
		return err
	}
	for _, raw := range body.Buckets {
		var numbers [3]float64
		for i := range numbers {
			s, ok := raw[i+1].(string)
			if !ok {
				return fmt.Errorf("a bound of a bucket is %v", raw[i+1])
			}
			var err error
			if numbers[i], err = strconv.ParseFloat(s, 64); err != nil {
				return err
			}
		}
		h.buckets = append(h.buckets, bucket{numbers[0], numbers[1], numbers[2]})
	}
	return nil
}

// choose keeps the panels with these titles, in this order, and moves them together.
func (r *recording) choose(titles []string) error {
	var chosen []*panel
	x, y, high := 0, 0, 0
	for _, title := range titles {
		i := slices.IndexFunc(r.Panels, func(p *panel) bool { return p.Panel.Title == title })
		if i < 0 {
			return fmt.Errorf("no panel %q", title)
		}
		at := &r.Panels[i].Panel.GridPos
		if x+at.W > 24 {
			x, y, high = 0, y+high, 0
		}
		at.X, at.Y = x, y
		x, high = x+at.W, max(high, at.H)
		chosen = append(chosen, r.Panels[i])
	}
	r.Panels = chosen
	return nil
}

var label = regexp.MustCompile(`\{\{(\w+)\}\}`)

// name is what the legend calls a series.
func (s series) name(format string) string {
	return label.ReplaceAllStringFunc(format, func(m string) string { return s.Metric[m[2:len(m)-2]] })
}

// last is the last value of a series.
func (s series) last() (float64, bool) {
	if len(s.Values) == 0 {
		return 0, false
	}
	return s.Values[len(s.Values)-1].value, true
}

// style is how a line is drawn.
type style struct {
	color           string
	dashed, stacked bool
}

// style is what the panel's overrides make of the n-th line, of this name.
func (p *panel) style(name string, n int) style {
	custom := p.Panel.FieldConfig.Defaults.Custom
	s := style{color: classic(n), stacked: custom.Stacking.Mode == "normal"}
	for _, o := range p.Panel.FieldConfig.Overrides {
		if o.Matcher.ID != "byRegexp" || !regexp.MustCompile(o.Matcher.Options[1:len(o.Matcher.Options)-1]).MatchString(name) {
			continue
		}
		for _, property := range o.Properties {
			switch property.ID {
			case "color":
				var c struct{ FixedColor string }
				if json.Unmarshal(property.Value, &c) == nil {
					s.color = c.FixedColor
				}
			case "custom.lineStyle":
				s.dashed = true
			case "custom.stacking":
				s.stacked = false
			}
		}
	}
	return s
}

// shown is the text and the colour of a value: by the mappings, else by the unit and the thresholds.
func (p *panel) shown(value float64) (text, color string) {
	d := p.Panel.FieldConfig.Defaults
	return show(value, d.Unit, d.Decimals, d.Mappings, d.Thresholds)
}

func show(value float64, unit string, decimals *int, mappings []mapping, t *thresholds) (text, color string) {
	for _, m := range mappings {
		if value >= m.Options.From && value <= m.Options.To {
			return m.Options.Result.Text, m.Options.Result.Color
		}
	}
	color = "text"
	if t != nil {
		for _, s := range t.Steps {
			if s.Value == nil || value >= *s.Value {
				color = s.Color
			}
		}
	}
	return format(value, unit, decimals), color
}
