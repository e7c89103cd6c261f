package relay

import "strconv"

// Samples become series in two steps. While a page is read, each sample is added to a sum. There is one sum for each
// engine and model, under each name that a family has. When the page has ended, the sums of one name become the series
// of the family.

// sum is a series while its page is read.
type sum struct {
	series
	rank               int // of the samples in it
	hasValue, hasCount bool
	spoiled            bool // a sample that belongs to it was refused
}

// sums are those of a family under one of its names.
type sums []sum

// addSample adds a sample to its sum. It reports false if its value cannot be one.
//
// The ranks of an engine report the same requests: only the samples of its lowest rank count.
//
// Samples of one rank can differ in labels that are not relayed, as those of the servers behind a router or of the
// processes of a server. Their values add up. Of ratios the largest counts.
func (p *pageReader) addSample(u use, labels []label, value float64) (ok bool) {
	if len(labelValue(labels, p.table.breakdownLabel)) > 0 {
		return true // the page has the total as well
	}
	model, engine := labelValue(labels, "model_name"), labelValue(labels, p.table.engineLabel)
	p.current.own = p.current.own || len(labels) == 0 || len(model)+len(engine) > 0
	all := &p.sums[u.family][u.name]
	p.scanner.steps += len(*all)
	rank := p.rank(labels)
	s := all.of(p.text(engine, "0"), p.text(model, p.model), rank)
	switch {
	case s == nil:
		p.current.drop(dropSeries)
		p.current.partial[u.family] = true
		return true
	case rank > s.rank:
		return true
	}
	return s.add(u, value)
}

// rank is the number of a replica among those of its engine, 0 where the page does not number them.
func (p *pageReader) rank(labels []label) (rank int) {
	for _, name := range p.table.rankLabels {
		n, _ := strconv.Atoi(string(labelValue(labels, name))) // absent: 0
		rank = rank<<16 | n&0xFFFF
	}
	return rank
}

// of returns the sum of an engine and a model. A sum of a higher rank than the given one is begun anew. The result is
// nil if there are maxSeries others.
func (all *sums) of(engine, model string, rank int) *sum {
	fresh := sum{series: series{engine: engine, model: model}, rank: rank}
	for i := range *all {
		s := &(*all)[i]
		if s.engine != engine || s.model != model {
			continue
		}
		if rank < s.rank {
			*s = fresh
		}
		return s
	}
	if len(*all) == maxSeries {
		return nil
	}
	*all = append(*all, fresh)
	return &(*all)[len(*all)-1]
}

// add adds a value. It reports false if the value cannot be one; then the sum is spoiled.
func (s *sum) add(u use, value float64) bool {
	kind := u.family.spec().kind
	switch {
	case u.kind == useCount && plausible(value, kindCounter):
		s.count, s.hasCount = s.count+value, true
	case u.kind == useCount || !plausible(value, kind):
		s.spoiled = true
		return false
	case kind == kindRatio:
		s.value, s.hasValue = max(s.value, value), true
	default:
		s.value, s.hasValue = s.value+value, true
	}
	return true
}

// choose makes the series of a family of the sums under its newest name that the page has. A spoiled sum is left out as
// a whole: the rest of it would read as a counter that fell.
func (p *pageReader) choose(f family) {
	for name, all := range p.sums[f] {
		if len(all) == 0 {
			continue
		}
		chosen := make([]series, 0, len(all))
		for _, s := range all {
			if s.usable(f.spec().kind) {
				chosen = append(chosen, s.series)
			} else {
				p.current.partial[f] = true
			}
		}
		p.current.families[f] = chosen
		if f == familyKVUsage {
			p.current.older = name > 0
		}
		return
	}
}

// usable reports whether a sum can become a series. A summary needs both its sum and its count.
func (s *sum) usable(kind metricKind) bool {
	whole := kind != kindSummary || s.hasValue && s.hasCount
	return whole && !s.spoiled && plausible(s.value, kind) && plausible(s.count, kindCounter)
}

// maxNumber bounds what a page counts: above it a float64 no longer tells one from the next.
const maxNumber = 1 << 53

// plausible reports whether a metric of a kind can have a value: all that is relayed is finite and not negative. Every
// number of a page that is used passes it.
func plausible(value float64, kind metricKind) bool {
	if kind == kindRatio {
		return value >= 0 && value <= 1
	}
	return value >= 0 && value <= maxNumber
}
