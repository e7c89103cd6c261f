package relay

import (
	"bytes"
	"hash/maphash"
	"io"
	"math"
	"math/bits"
	"mime"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// Bounds on what one page may put on ours.
const (
	maxSeries     = 64   // per family; a server with more engines than that is not known
	maxLabelValue = 1024 // bytes
	keepSeen      = 4096 // samples; the memory for more is not kept for the next page
)

// processStart is exposed by the Python and C++ client libraries, but not in Python's multi-process mode.
const processStart = "process_start_time_seconds"

// A page becomes a reading in two steps. While it is scanned, each wanted sample is added to a sum: there is a sum for
// each family, each of the family's names, each engine and each model. When the page has ended, the sums of one name
// become the series of the family.

// sum is a series of ours while a page is read.
type sum struct {
	series
	rank               int // of the replica whose samples these are
	hasValue, hasCount bool
	spoiled            bool // a sample of it was left out
}

// sums are those of a family under one of its names.
type sums []sum

// use is one use that is made of a sample: as part of a family, as info, or as the process start.
type use struct {
	kind   useKind
	family family
	name   int // which of the family's names, 0 the newest
	info   engineInfoSource
}

type useKind int

const (
	useValue useKind = iota // also the sum of a summary
	useCount
	useInfo
	useStart
)

// pageReader turns pages of one engine into readings. It reuses its memory and is not safe for concurrent use.
type pageReader struct {
	table    *engineTable // its engine is empty if it is not known
	tables   []*engineTable
	detected bool // the page that is being read has told its engine
	uses     [][]use
	scanner  scanner
	seed     maphash.Seed

	seen    map[uint64]struct{} // identities of the wanted samples of the page that is being read
	texts   map[string]string
	shown   func(string) string // makes a text of the server fit to be shown
	model   string              // model_name where the page has none
	sums    [families][]sums    // by the number of the family's name
	current *reading
}

func newPageReader() *pageReader {
	p := &pageReader{seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}, texts: map[string]string{}, shown: labelText, tables: engineTables()}
	p.readBy(nil)
	return p
}

// readBy makes the reader one of pages of an engine; nil: of none that is known.
func (p *pageReader) readBy(table *engineTable) {
	if table == nil {
		table = &engineTable{}
	}
	if p.table != nil && p.table.engine == table.engine {
		return
	}
	p.table, p.uses, p.scanner.want, p.sums = table, nil, map[string]int{}, [families][]sums{}
	p.use(processStart, use{kind: useStart})
	for _, source := range table.sources {
		p.sums[source.family] = make([]sums, len(source.names))
		for i, name := range source.names {
			p.useSource(name, use{family: source.family, name: i})
		}
		if source.plus != "" {
			p.useSource(source.plus, use{family: source.family})
		}
	}
	for _, info := range table.info {
		p.use(info.name, use{kind: useInfo, info: info})
	}
}

// known is the table by which pages are read; nil if it is none that is known.
func (p *pageReader) known() *engineTable {
	if p.table.engine == "" {
		return nil
	}
	return p.table
}

// detect finds the engine of a page by the prefix of a sample, and reports whether it did.
func (p *pageReader) detect(name []byte) (found bool) {
	for _, t := range p.tables {
		if bytes.HasPrefix(name, []byte(t.prefix)) {
			p.readBy(t)
			p.detected = true
			return true
		}
	}
	return false
}

func (p *pageReader) useSource(name string, u use) {
	if u.family.spec().kind != kindSummary {
		p.use(name, u)
		return
	}
	p.use(name+"_sum", u)
	u.kind = useCount
	p.use(name+"_count", u)
}

func (p *pageReader) use(name string, u use) {
	i, known := p.scanner.want[name]
	if !known {
		i = len(p.uses)
		p.scanner.want[name] = i
		p.uses = append(p.uses, nil)
	}
	p.uses[i] = append(p.uses[i], u)
}

// read makes a reading of a page of an engine, which is nil if it is not known. Where the page tells its engine, that
// counts, if it is told to. model becomes the label model_name where the page has none.
func (p *pageReader) read(page io.Reader, contentType, model string, table *engineTable, byPage bool) (*reading, error) {
	p.current, p.model, p.detected, p.scanner.detect = &reading{start: math.NaN()}, model, false, nil
	if byPage {
		p.scanner.detect = p.detect // the engine of the page before until then
	} else {
		p.readBy(table)
	}
	defer p.forget()
	err := p.scanner.scan(page, isOpenMetrics(contentType), p.visit)
	if byPage && !p.detected {
		p.readBy(table)
	}
	if err != nil {
		return nil, err
	}
	for f := range families {
		p.choose(f)
	}
	return p.current, nil
}

// forget makes room for the next page.
func (p *pageReader) forget() {
	if len(p.seen) > keepSeen {
		p.seen = map[uint64]struct{}{}
	}
	clear(p.seen)
	for _, names := range p.sums {
		for i := range names {
			names[i] = names[i][:0]
		}
	}
}

// choose makes the series of a family of the sums of its newest name that the page has. A sum that lacks a sample goes
// as a whole: what is left of it would read as a counter that fell.
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

// usable reports whether a sum is whole and plausible. A summary needs both its sum and its count.
func (s *sum) usable(kind metricKind) bool {
	whole := kind != kindSummary || s.hasValue && s.hasCount
	return whole && !s.spoiled && plausible(s.value, kind) && plausible(s.count, kindCounter)
}

// maxNumber bounds what a page counts: above it a float64 no longer tells one from the next.
const maxNumber = 1 << 53

// plausible reports whether a metric of this kind can have such a value: all that is relayed is finite and not
// negative. It is the one door for numbers of a page.
func plausible(value float64, kind metricKind) bool {
	if kind == kindRatio {
		return value >= 0 && value <= 1
	}
	return value >= 0 && value <= maxNumber
}

func isOpenMetrics(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/openmetrics-text"
}

// visit is told of every wanted sample of the page. An exact repetition is left out.
func (p *pageReader) visit(want int, labels []label, value float64) {
	p.current.any = p.current.any || p.uses[want][0].kind != useStart
	id := p.identity(want, labels)
	if _, again := p.seen[id]; again {
		p.current.drop(dropRepeated)
		return
	}
	p.seen[id] = struct{}{}
	labels, usable := p.usable(labels)
	refused := false
	for _, u := range p.uses[want] {
		switch {
		case !usable && u.kind <= useCount:
			p.current.partial[u.family] = true
		case !usable:
		case u.kind <= useCount:
			refused = p.addSample(u, labels, value) || refused
		case u.kind == useInfo && u.info.label != "": // its value says nothing
			p.addInfo(u.info, labels, value)
		case !plausible(value, kindGauge):
			refused = true
		case u.kind == useStart:
			p.current.start = value
		default:
			p.addInfo(u.info, labels, value)
		}
	}
	if refused {
		p.current.drop(dropValue)
	}
}

// usable leaves out label values that are too long or not UTF-8, and counts them. A sample that is told from its
// siblings by such a label goes with it.
func (p *pageReader) usable(labels []label) (kept []label, usable bool) {
	bad := func(l label) bool { return len(l.value) > maxLabelValue || !utf8.Valid(l.value) }
	if !slices.ContainsFunc(labels, bad) {
		return labels, true
	}
	usable = true
	for _, l := range labels {
		if !bad(l) {
			kept = append(kept, l)
			continue
		}
		name := string(l.name)
		usable = usable && name != "model_name" && name != p.table.engineLabel && !slices.Contains(p.table.rankLabels, name)
	}
	for range len(labels) - len(kept) {
		p.current.drop(dropText)
	}
	return kept, usable
}

// addSample adds a sample to its sum, and reports whether its value was refused.
//
// The ranks of one engine report the same requests. Only the samples of the lowest rank count.
//
// Samples of one rank differ in labels that are not relayed: those of the servers behind a router, or of the processes
// of a server. Their counts add up. Of ratios the largest counts.
func (p *pageReader) addSample(u use, labels []label, value float64) (refused bool) {
	if len(labelValue(labels, p.table.breakdownLabel)) > 0 {
		return false
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
		return false
	case rank > s.rank:
		return false
	}
	return !s.add(u, value)
}

// rank is the number of a replica among those of its engine, 0 where the page does not number them.
func (p *pageReader) rank(labels []label) (rank int) {
	for _, name := range p.table.rankLabels {
		n, _ := strconv.Atoi(string(labelValue(labels, name))) // absent: 0
		rank = rank<<16 | n&0xFFFF
	}
	return rank
}

// of returns the sum of an engine and a model. One of a higher rank begins anew. The result is nil if there are
// maxSeries others.
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

// add adds a value, and reports whether it could. A value that cannot be spoils the sum.
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

// identity tells samples apart by name and labels, in whatever order the labels are written.
func (p *pageReader) identity(want int, labels []label) uint64 {
	id := uint64(want)
	for _, l := range labels {
		id += bits.RotateLeft64(maphash.Bytes(p.seed, l.name), 32) ^ maphash.Bytes(p.seed, l.value)
	}
	return id
}

func (p *pageReader) addInfo(source engineInfoSource, labels []label, value float64) {
	var text string
	if source.label == "" {
		text = strconv.FormatFloat(value, 'f', -1, 64)
	} else {
		text = infoText(p.text(labelValue(labels, source.label), ""))
	}
	engine := p.engine(labels)
	i := slices.IndexFunc(p.current.info, func(r engineInfo) bool { return r.engine == engine })
	if i < 0 {
		if i = len(p.current.info); i == maxSeries {
			p.current.drop(dropSeries)
			return
		}
		p.current.info = append(p.current.info, engineInfo{engine: engine})
	}
	if fields := &p.current.info[i].fields; fields[source.field] == "" {
		fields[source.field] = text
	}
}

// infoText turns what Python writes into what a label should say.
func infoText(s string) string {
	switch s {
	case "None":
		return ""
	case "True":
		return "true"
	case "False":
		return "false"
	}
	return s
}

func (p *pageReader) engine(labels []label) string {
	return p.text(labelValue(labels, p.table.engineLabel), "0")
}

// text makes a string of a label value. The few values that come again with every page are kept.
func (p *pageReader) text(value []byte, otherwise string) string {
	if len(value) == 0 {
		return otherwise
	}
	if s, known := p.texts[string(value)]; known {
		return s
	}
	if len(p.texts) > 4*maxSeries {
		clear(p.texts)
	}
	s := p.shown(string(value))
	p.texts[string(value)] = s
	return s
}

// labelText makes a text fit to be a label value, in which lines are escaped.
func labelText(s string) string { return scrub.Lines(s, maxLabelValue) }

// labelValue is the value of a label; nil where there is none.
func labelValue(labels []label, name string) []byte {
	for _, l := range labels {
		if string(l.name) == name {
			return l.value
		}
	}
	return nil
}
