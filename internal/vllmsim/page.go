package vllmsim

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// page is a /metrics page in the making, as prometheus_client of Python writes it.
type page struct {
	families []family
	multi    bool // several API servers: no _created, other order
}

type family struct {
	name, help, kind string
	samples          []sample
}

type sample struct {
	suffix string
	labels labels
	value  float64
}

// labels are pairs of name and value, sorted by name as they are exposed.
type labels []string

func (l labels) with(name, value string) labels {
	i := 0
	for i < len(l) && l[i] < name {
		i += 2
	}
	return slices.Insert(slices.Clone(l), i, name, value)
}

func (l labels) write(b *bytes.Buffer) {
	for i := 0; i < len(l); i += 2 {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(l[i])
		b.WriteString(`="`)
		for _, c := range []byte(l[i+1]) {
			switch c {
			case '\\', '"':
				b.WriteByte('\\')
				b.WriteByte(c)
			case '\n':
				b.WriteString(`\n`)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
	}
	if len(l) > 0 {
		b.WriteByte('}')
	}
}

// series is one time series, or all of one histogram or summary.
type series struct {
	labels    labels
	value     float64
	histogram Histogram
	count     int
	since     time.Time
}

func (p *page) gauge(name, help string, all ...series) {
	p.families = append(p.families, family{name, help, "gauge", plain(all)})
}

func (p *page) counter(name, help string, all ...series) {
	p.families = append(p.families, family{name + "_total", help, "counter", plain(all)})
	p.created(name, help, all)
}

func plain(all []series) []sample {
	var samples []sample
	for _, s := range all {
		samples = append(samples, sample{"", s.labels, s.value})
	}
	return samples
}

func (p *page) summary(name, help string, all ...series) {
	f := family{name, help, "summary", nil}
	for _, s := range all {
		f.samples = append(f.samples, sample{"_count", s.labels, float64(s.count)}, sample{"_sum", s.labels, s.value})
	}
	p.families = append(p.families, f)
	p.created(name, help, all)
}

func (p *page) histogram(name, help string, all ...series) {
	f := family{name, help, "histogram", nil}
	for _, s := range all {
		h := s.histogram
		var buckets []sample
		cumulative := 0
		for i, n := range h.Counts {
			cumulative += n
			bound := math.Inf(1)
			if i < len(h.Bounds) {
				bound = h.Bounds[i]
			}
			buckets = append(buckets, sample{"_bucket", s.labels.with("le", pythonFloat(bound)), float64(cumulative)})
		}
		sum, count := sample{"_sum", s.labels, h.Sum}, sample{"_count", s.labels, float64(h.Count)}
		if p.multi {
			f.samples = append(append(append(f.samples, sum), buckets...), count)
		} else {
			f.samples = append(append(f.samples, buckets...), count, sum)
		}
	}
	p.families = append(p.families, f)
	p.created(name, help, all)
}

// created adds the family that says since when a counter counts.
func (p *page) created(name, help string, all []series) {
	f := family{name + "_created", help, "gauge", nil}
	for _, s := range all {
		f.samples = append(f.samples, sample{"", s.labels, unixSeconds(s.since)})
	}
	if !p.multi && len(all) > 0 {
		p.families = append(p.families, f)
	}
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// multiOrder is how several API servers sort their families.
var multiOrder = []string{"counter", "gauge", "summary", "histogram"}

func (p *page) text() []byte {
	if p.multi {
		slices.SortStableFunc(p.families, func(a, b family) int {
			return slices.Index(multiOrder, a.kind) - slices.Index(multiOrder, b.kind)
		})
	}
	var b bytes.Buffer
	for _, f := range p.families {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, s := range f.samples {
			b.WriteString(f.name)
			b.WriteString(s.suffix)
			s.labels.write(&b)
			b.WriteByte(' ')
			b.WriteString(pythonFloat(s.value))
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// pythonFloat writes a number as prometheus_client does: as Python's repr, but with an exponent from 1e+06 on.
func pythonFloat(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case v != 0 && math.Abs(v) < 1e-4:
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	if point := strings.Index(s, "."); v > 0 && point > 6 {
		mantissa := strings.TrimRight(s[:1]+"."+s[1:point]+s[point+1:], "0.")
		return fmt.Sprintf("%se+0%d", mantissa, point-1) // the 0 is there for larger exponents, too
	}
	return s
}
