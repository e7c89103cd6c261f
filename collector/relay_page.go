package collector

import (
	"bytes"
	"hash/maphash"
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
	relayMaxSeries     = 64   // per family; a server with more engines than that is not known
	relayMaxLabelValue = 1024 // bytes
)

// relayProcessStart is exposed by the Python and C++ client libraries, but not in Python's multi-process mode.
const relayProcessStart = "process_start_time_seconds"

// relaySeries is one relayed series: a value, or the sum and count of a summary.
type relaySeries struct {
	engine, model string
	value, count  float64
}

// relayInfo is what a page says of one engine's configuration.
type relayInfo struct {
	engine string
	fields [relayInfoFields]string
}

// relayReading is what one page says, in our own terms. It does not change once it is made.
type relayReading struct {
	families [relayFamilies][]relaySeries
	info     []relayInfo
	start    float64 // process start, Unix seconds; NaN where the page has none
	dropped  int     // samples and label values that were left out
	any      bool    // the page has a sample of the engine's table
}

// total sums a family over its series; unknown where it has none.
func (r *relayReading) total(family relayFamily) (sum float64, known bool) {
	for _, s := range r.families[family] {
		sum += s.value
	}
	return sum, len(r.families[family]) > 0
}

// peak is the largest value of a family; unknown where it has no series.
func (r *relayReading) peak(family relayFamily) (peak float64, known bool) {
	for i, s := range r.families[family] {
		if i == 0 || s.value > peak {
			peak = s.value
		}
	}
	return peak, len(r.families[family]) > 0
}

// tokens is the sum of all token counters; NaN where the page has none.
func (r *relayReading) tokens() float64 {
	prompt, hasPrompt := r.total(relayPromptTokens)
	generation, hasGeneration := r.total(relayGenerationTokens)
	if !hasPrompt && !hasGeneration {
		return math.NaN()
	}
	return prompt + generation
}

// launch is what the first engine says of its configuration; nil if it says nothing.
func (r *relayReading) launch() map[string]string {
	if len(r.info) == 0 {
		return nil
	}
	shown := map[string]string{}
	for f, name := range relayInfoNames() {
		if text := r.info[0].fields[f]; text != "" {
			shown[name] = text
		}
	}
	return shown
}

// moved reports whether a gauge or counter differs from the reading before. The summaries are left out: they
// change only together with counters.
func (r *relayReading) moved(before *relayReading) bool {
	for f := range relayFamilies {
		if relayFamilyTable(f).kind != relaySummary && !slices.Equal(r.families[f], before.families[f]) {
			return true
		}
	}
	return false
}

// missing tells, for each family that the table promises, whether the page lacks it; nothing for a family that
// cannot be judged yet. In multi-process mode vLLM shows no gauge before its engine's first step, and SGLang no
// counter before the first request has ended. So gauges are judged once a gauge is there or a count is above
// zero, the others once a count is above zero, and all of them on a page that has nothing of the engine at all.
func (r *relayReading) missing(table *engineTable) map[relayFamily]bool {
	gauge, counted := false, false
	for f, series := range r.families {
		isGauge := relayFamilyTable(relayFamily(f)).kind == relayGauge
		for _, s := range series {
			gauge = gauge || isGauge
			counted = counted || !isGauge && s.value+s.count > 0
		}
	}
	judged := map[relayFamily]bool{}
	for _, source := range table.sources {
		isGauge := relayFamilyTable(source.family).kind == relayGauge
		if source.optional || r.any && !counted && !(isGauge && gauge) {
			continue
		}
		judged[source.family] = len(r.families[source.family]) == 0
	}
	return judged
}

// relayUse is one use that is made of a sample: as part of a family, as info, or as the process start.
type relayUse struct {
	kind   relayUseKind
	family relayFamily
	alias  int // which of the family's names, 0 the newest
	info   engineInfoSource
}

type relayUseKind int

const (
	relayUseValue relayUseKind = iota // also the sum of a summary
	relayUseCount
	relayUseInfo
	relayUseStart
)

// relayPage turns pages of one engine into readings. It reuses its memory and is not safe for concurrent use.
type relayPage struct {
	table   *engineTable
	uses    [][]relayUse
	scanner pageScanner
	seed    maphash.Seed

	texts   map[string]string
	shown   func(string) string // makes a text of the server fit to be shown
	model   string              // model_name where the page has none
	aliases [relayFamilies][]relayGather
	current *relayReading
}

// relayGather collects the series of a family under one of its names.
type relayGather struct{ series []relayGathered }

type relayGathered struct {
	relaySeries
	rank int
	seen []uint64 // identities of the samples that went into it
}

func newRelayPage(table *engineTable) *relayPage {
	p := &relayPage{table: table, seed: maphash.MakeSeed(), texts: map[string]string{}, shown: relayLabelText, scanner: pageScanner{want: map[string]int{}}}
	p.use(relayProcessStart, relayUse{kind: relayUseStart})
	for _, source := range table.sources {
		p.aliases[source.family] = make([]relayGather, len(source.names))
		for alias, name := range source.names {
			p.useSource(name, relayUse{family: source.family, alias: alias})
		}
		if source.plus != "" {
			p.useSource(source.plus, relayUse{family: source.family})
		}
	}
	for _, info := range table.info {
		p.use(info.name, relayUse{kind: relayUseInfo, info: info})
	}
	return p
}

func (p *relayPage) useSource(name string, u relayUse) {
	if relayFamilyTable(u.family).kind != relaySummary {
		p.use(name, u)
		return
	}
	p.use(name+"_sum", u)
	u.kind = relayUseCount
	p.use(name+"_count", u)
}

func (p *relayPage) use(name string, u relayUse) {
	i, known := p.scanner.want[name]
	if !known {
		i = len(p.uses)
		p.scanner.want[name] = i
		p.uses = append(p.uses, nil)
	}
	p.uses[i] = append(p.uses[i], u)
}

// read makes a reading of a page. model becomes the label model_name where the page has none.
func (p *relayPage) read(page []byte, contentType, model string) (*relayReading, error) {
	p.current, p.model = &relayReading{start: math.NaN()}, model
	for _, aliases := range p.aliases {
		for i := range aliases {
			aliases[i].series = aliases[i].series[:0]
		}
	}
	if err := p.scanner.scan(page, relayIsOpenMetrics(contentType), p.visit); err != nil {
		return nil, err
	}
	for f, aliases := range p.aliases {
		p.current.families[f] = relayChoose(aliases)
	}
	return p.current, nil
}

// relayChoose takes the series of the first name that the page has.
func relayChoose(aliases []relayGather) []relaySeries {
	for _, a := range aliases {
		if len(a.series) == 0 {
			continue
		}
		chosen := make([]relaySeries, len(a.series))
		for i, s := range a.series {
			chosen[i] = s.relaySeries
		}
		return chosen
	}
	return nil
}

func relayIsOpenMetrics(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/openmetrics-text"
}

// visit is told of every wanted sample of the page.
func (p *relayPage) visit(want int, labels []pageLabel, value float64) {
	p.current.any = p.current.any || p.uses[want][0].kind != relayUseStart
	labels, usable := p.usable(labels)
	if !usable {
		return
	}
	for _, u := range p.uses[want] {
		switch u.kind {
		case relayUseStart:
			p.current.start = value
		case relayUseInfo:
			p.addInfo(u.info, labels, value)
		default:
			p.addSample(u, want, labels, value)
		}
	}
}

// usable leaves out label values that are too long or not UTF-8, and counts them. A sample that is told from its
// siblings by such a label goes with it.
func (p *relayPage) usable(labels []pageLabel) (kept []pageLabel, usable bool) {
	bad := func(l pageLabel) bool { return len(l.value) > relayMaxLabelValue || !utf8.Valid(l.value) }
	if !slices.ContainsFunc(labels, bad) {
		return labels, true
	}
	for _, l := range labels {
		if !bad(l) {
			kept = append(kept, l)
			continue
		}
		p.current.dropped++
		if name := string(l.name); name == "model_name" || name == p.table.engineLabel || slices.Contains(p.table.rankLabels, name) {
			return nil, false
		}
	}
	return kept, true
}

// addSample puts a sample into its series. Replicas (several ranks) of an engine count once; an exact repetition
// is dropped and counted; other samples of a series, which differ in labels that we do not have, are combined:
// counts add up, of gauges the largest counts (vLLM 0.10 showed its cache usage once for each process).
func (p *relayPage) addSample(u relayUse, want int, labels []pageLabel, value float64) {
	if len(relayLabel(labels, p.table.breakdownLabel)) > 0 {
		return
	}
	rank := 0
	for _, name := range p.table.rankLabels {
		n, _ := strconv.Atoi(string(relayLabel(labels, name))) // absent: 0
		rank = rank<<16 | n&0xFFFF
	}
	gather := &p.aliases[u.family][u.alias]
	s := gather.find(p.engine(labels), p.text(relayLabel(labels, "model_name"), p.model), rank)
	if s == nil {
		p.current.dropped++
		return
	}
	if rank > s.rank {
		return
	}
	id := p.identity(want, labels)
	if slices.Contains(s.seen, id) {
		p.current.dropped++
		return
	}
	switch {
	case u.kind == relayUseCount:
		s.count += value
	case relayFamilyTable(u.family).kind == relayGauge && len(s.seen) > 0:
		s.value = max(s.value, value)
	default:
		s.value += value
	}
	s.seen = append(s.seen, id)
}

// find returns the series to add to, made anew if there is none or only one of a higher rank; nil at the bound.
func (g *relayGather) find(engine, model string, rank int) *relayGathered {
	for i := range g.series {
		s := &g.series[i]
		if s.engine != engine || s.model != model {
			continue
		}
		if rank < s.rank {
			s.value, s.count, s.rank, s.seen = 0, 0, rank, s.seen[:0]
		}
		return s
	}
	if len(g.series) == relayMaxSeries {
		return nil
	}
	if len(g.series) < cap(g.series) { // take the memory of an earlier page
		g.series = g.series[:len(g.series)+1]
	} else {
		g.series = append(g.series, relayGathered{})
	}
	s := &g.series[len(g.series)-1]
	*s = relayGathered{relaySeries: relaySeries{engine: engine, model: model}, rank: rank, seen: s.seen[:0]}
	return s
}

// identity tells samples apart by name and labels, in whatever order the labels are written.
func (p *relayPage) identity(want int, labels []pageLabel) uint64 {
	id := uint64(want)
	for _, l := range labels {
		id += bits.RotateLeft64(maphash.Bytes(p.seed, l.name), 32) ^ maphash.Bytes(p.seed, l.value)
	}
	return id
}

func (p *relayPage) addInfo(source engineInfoSource, labels []pageLabel, value float64) {
	var text string
	if source.label == "" {
		text = strconv.FormatFloat(value, 'f', -1, 64)
	} else {
		text = relayInfoText(p.text(relayLabel(labels, source.label), ""))
	}
	engine := p.engine(labels)
	i := slices.IndexFunc(p.current.info, func(r relayInfo) bool { return r.engine == engine })
	if i < 0 {
		if i = len(p.current.info); i == relayMaxSeries {
			p.current.dropped++
			return
		}
		p.current.info = append(p.current.info, relayInfo{engine: engine})
	}
	if fields := &p.current.info[i].fields; fields[source.field] == "" {
		fields[source.field] = text
	}
}

// relayInfoText turns what Python writes into what a label should say.
func relayInfoText(s string) string {
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

func (p *relayPage) engine(labels []pageLabel) string {
	return p.text(relayLabel(labels, p.table.engineLabel), "0")
}

// text makes a string of a label value. The few values that come again with every page are kept.
func (p *relayPage) text(value []byte, otherwise string) string {
	if len(value) == 0 {
		return otherwise
	}
	if s, known := p.texts[string(value)]; known {
		return s
	}
	if len(p.texts) > 4*relayMaxSeries {
		clear(p.texts)
	}
	s := p.shown(string(value))
	p.texts[string(value)] = s
	return s
}

// relayLabelText makes a text fit to be a label value, in which lines are escaped.
func relayLabelText(s string) string { return scrub.Lines(s, relayMaxLabelValue) }

// relayLabel is the value of a label; nil where there is none.
func relayLabel(labels []pageLabel, name string) []byte {
	for _, l := range labels {
		if string(l.name) == name {
			return l.value
		}
	}
	return nil
}

// relayTableOfPage finds the engine that a page is of by the prefix of its sample names; nil if it is of none.
func relayTableOfPage(page []byte) *engineTable {
	for _, t := range engineTables() {
		if bytes.HasPrefix(page, []byte(t.prefix)) || bytes.Contains(page, []byte("\n"+t.prefix)) {
			return t
		}
	}
	return nil
}
