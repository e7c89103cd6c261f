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
	keepSeen      = 4096 // above it the memory of a page is not kept for the next
)

// processStart is exposed by the Python and C++ client libraries, but not in Python's multi-process mode.
const processStart = "process_start_time_seconds"

// series is one relayed series: a value, or the sum and count of a summary.
type series struct {
	engine, model string
	value, count  float64
}

// engineInfo is what a page says of one engine's configuration.
type engineInfo struct {
	engine string
	fields [infoFields]string
}

// reading is what one page says, in our own terms. It does not change once it is made.
type reading struct {
	families [families][]series
	info     []engineInfo
	start    float64 // process start, Unix seconds; NaN where the page has none
	dropped  int     // samples and label values that were left out
	drops    [dropCauses]bool
	partial  [families]bool // a sample of the family was left out: its sum is not known
	any      bool           // the page has a sample of the engine's table
	older    bool           // the page shows the KV cache usage under an older name
	own      bool           // a sample has no labels, or one by which the engine tells its models or replicas apart
}

// dropCause numbers the causes for which something of a page is left out.
type dropCause int

const (
	dropRepeated dropCause = iota
	dropText
	dropSeries
	dropValue
	dropCauses // how many there are
)

// String says what was left out.
func (d dropCause) String() string {
	return [dropCauses]string{
		dropRepeated: "repeated samples",
		dropText:     "label values that are too long or not UTF-8",
		dropSeries:   "more series of a metric than are relayed",
		dropValue:    "values that cannot be",
	}[d]
}

func (r *reading) drop(cause dropCause) {
	r.dropped++
	r.drops[cause] = true
}

// total sums a family over its series; unknown where it has none, or not all of them.
func (r *reading) total(f family) (sum float64, known bool) {
	for _, s := range r.families[f] {
		sum += s.value
	}
	return sum, len(r.families[f]) > 0 && !r.partial[f]
}

// peak is the largest value of a family; unknown where it has no series.
func (r *reading) peak(f family) (peak float64, known bool) {
	for i, s := range r.families[f] {
		if i == 0 || s.value > peak {
			peak = s.value
		}
	}
	return peak, len(r.families[f]) > 0
}

// tokens is the sum of all token counters; NaN where the page has none, or where one was left out.
func (r *reading) tokens() float64 {
	prompt, hasPrompt := r.total(familyPromptTokens)
	generation, hasGeneration := r.total(familyGenerationTokens)
	if !hasPrompt && !hasGeneration || r.partial[familyPromptTokens] || r.partial[familyGenerationTokens] {
		return math.NaN()
	}
	return prompt + generation
}

// launch is what the first engine says of its configuration; nil if it says nothing.
func (r *reading) launch() map[string]string {
	if len(r.info) == 0 {
		return nil
	}
	shown := map[string]string{}
	for f, name := range infoNames() {
		if text := r.info[0].fields[f]; text != "" {
			shown[name] = text
		}
	}
	return shown
}

// moved reports whether a gauge or counter differs from the reading before. The summaries are left out: they
// change only together with counters.
func (r *reading) moved(before *reading) bool {
	for f := range families {
		if f.spec().kind != kindSummary && !slices.Equal(r.families[f], before.families[f]) {
			return true
		}
	}
	return false
}

// missing tells, for each family that the table promises, whether the page lacks it; nothing for a family that
// cannot be judged yet. In multi-process mode vLLM shows no gauge before its engine's first step, and SGLang no
// counter before the first request has ended. So gauges are judged once a gauge is there or a count is above
// zero, the others once a count is above zero, and all of them on a page that has nothing of the engine at all.
// What an older version of the engine does not have is not missing. Nor is anything on the page of a router, which shows
// under the engine's names what it knows itself: its samples have labels, and none is one of the engine's
// (production-stack: server, see src/vllm_router/services/metrics_service).
func (r *reading) missing(table *engineTable) map[family]bool {
	if r.any && !r.own && table.engineLabel != "" {
		return nil
	}
	gauge, counted := false, false
	for f, series := range r.families {
		isGauge := family(f).spec().kind.gauge()
		for _, s := range series {
			gauge = gauge || isGauge
			counted = counted || !isGauge && s.value+s.count > 0
		}
	}
	judged := map[family]bool{}
	for _, source := range table.sources {
		isGauge := source.family.spec().kind.gauge()
		if source.optional || source.newer && r.older || r.any && !counted && !(isGauge && gauge) {
			continue
		}
		judged[source.family] = len(r.families[source.family]) == 0
	}
	return judged
}

// use is one use that is made of a sample: as part of a family, as info, or as the process start.
type use struct {
	kind   useKind
	family family
	alias  int // which of the family's names, 0 the newest
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
	aliases [families][]gather
	current *reading
}

// gather collects the series of a family under one of its names.
type gather struct{ series []gathered }

type gathered struct {
	series
	rank               int
	hasValue, hasCount bool
	spoiled            bool // a sample of it was left out
}

func newPageReader() *pageReader {
	p := &pageReader{seed: maphash.MakeSeed(), texts: map[string]string{}, shown: labelText, tables: engineTables()}
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
	p.table, p.uses, p.scanner.want, p.aliases = table, nil, map[string]int{}, [families][]gather{}
	p.use(processStart, use{kind: useStart})
	for _, source := range table.sources {
		p.aliases[source.family] = make([]gather, len(source.names))
		for alias, name := range source.names {
			p.useSource(name, use{family: source.family, alias: alias})
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
	if len(p.seen) > keepSeen {
		p.seen = nil
	}
	if p.seen == nil {
		p.seen = map[uint64]struct{}{}
	}
	clear(p.seen)
	for _, aliases := range p.aliases {
		for i := range aliases {
			aliases[i].series = aliases[i].series[:0]
		}
	}
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

// choose takes the series of the first of the family's names that the page has. A series of which a sample was left
// out goes as a whole: what is left of its sum would read as a counter that fell.
func (p *pageReader) choose(f family) {
	for alias, a := range p.aliases[f] {
		if len(a.series) == 0 {
			continue
		}
		chosen := make([]series, 0, len(a.series))
		for _, s := range a.series {
			if s.usable(f.spec()) {
				chosen = append(chosen, s.series)
			} else {
				p.current.partial[f] = true
			}
		}
		p.current.families[f] = chosen
		if f == familyKVUsage {
			p.current.older = alias > 0
		}
		return
	}
}

// usable reports whether a series is whole and plausible. One half of a summary is none.
func (s *gathered) usable(spec familySpec) bool {
	whole := spec.kind != kindSummary || s.hasValue && s.hasCount
	return whole && !s.spoiled && plausible(s.value, spec.kind) && plausible(s.count, kindCounter)
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

// addSample puts a sample into its series and reports whether its value was refused. Replicas (several ranks) of an
// engine count once. Other samples of a series differ in labels that we do not have, as those of the servers behind a
// router or of the processes of a server: counts add up, of ratios the largest counts.
func (p *pageReader) addSample(u use, labels []label, value float64) (refused bool) {
	if len(labelValue(labels, p.table.breakdownLabel)) > 0 {
		return false
	}
	rank := 0
	for _, name := range p.table.rankLabels {
		n, _ := strconv.Atoi(string(labelValue(labels, name))) // absent: 0
		rank = rank<<16 | n&0xFFFF
	}
	model, engine := labelValue(labels, "model_name"), labelValue(labels, p.table.engineLabel)
	p.current.own = p.current.own || len(labels) == 0 || len(model)+len(engine) > 0
	gather := &p.aliases[u.family][u.alias]
	p.scanner.steps += len(gather.series)
	s := gather.find(p.text(engine, "0"), p.text(model, p.model), rank)
	if s == nil {
		p.current.drop(dropSeries)
		p.current.partial[u.family] = true
		return false
	}
	if rank > s.rank {
		return false
	}
	kind := u.family.spec().kind
	switch {
	case u.kind == useCount && plausible(value, kindCounter):
		s.count, s.hasCount = s.count+value, true
	case u.kind == useCount || !plausible(value, kind):
		s.spoiled = true
		return true
	case kind == kindRatio:
		s.value, s.hasValue = max(s.value, value), true
	default:
		s.value, s.hasValue = s.value+value, true
	}
	return false
}

// find returns the series to add to, made anew if there is none or only one of a higher rank; nil at the bound.
func (g *gather) find(engine, model string, rank int) *gathered {
	fresh := gathered{series: series{engine: engine, model: model}, rank: rank}
	for i := range g.series {
		s := &g.series[i]
		if s.engine != engine || s.model != model {
			continue
		}
		if rank < s.rank {
			*s = fresh
		}
		return s
	}
	if len(g.series) == maxSeries {
		return nil
	}
	g.series = append(g.series, fresh)
	return &g.series[len(g.series)-1]
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
