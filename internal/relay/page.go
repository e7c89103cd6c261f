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

// use is what a sample is read for. One sample can have several uses.
type use struct {
	kind   useKind
	family family           // of useValue and useCount
	name   int              // which of the family's names, 0 the newest
	info   engineInfoSource // of useInfo
}

type useKind int

const (
	useValue useKind = iota // the value of a gauge or counter, the sum of a summary
	useCount                // the count of a summary
	useInfo
	useStart // of the process
)

// pageReader turns pages into readings. It reuses its memory and is not safe for concurrent use.
type pageReader struct {
	shown func(string) string // makes a text of the server fit to be shown

	table    *engineTable // by which pages are read; its engine is empty if it is not known
	uses     [][]use      // of the samples of the table, by the number that the scanner gives them
	scanner  scanner
	tables   []*engineTable // by which a page can tell its engine
	detected bool           // the page has told its engine

	model   string // model_name where the page has none
	current *reading
	sums    [families][]sums // of the page, by the number of the family's name
	seed    maphash.Seed
	seen    map[uint64]struct{} // the samples of the page, by their hash
	texts   map[string]string   // label values of this page and those before, as they are shown
}

func newPageReader() *pageReader {
	p := &pageReader{seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}, texts: map[string]string{}, shown: labelText, tables: engineTables()}
	p.readBy(nil)
	return p
}

// readBy sets the table by which pages are read; nil stands for an engine that is not known.
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

// detect reads the rest of the page by the table of the engine whose prefix a sample has. It reports whether one has it.
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

// read reads a page. table is that of the server's engine, nil if it is not known; with byPage the engine of the first
// sample that has the prefix of one takes its place. model becomes the label model_name where the page has none.
func (p *pageReader) read(page io.Reader, contentType, model string, table *engineTable, byPage bool) (*reading, error) {
	p.current, p.model, p.detected, p.scanner.detect = &reading{start: math.NaN()}, model, false, nil
	if byPage {
		p.scanner.detect = p.detect // until it finds one, samples of the page before are looked for
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

func isOpenMetrics(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/openmetrics-text"
}

// visit makes use of a wanted sample. A second sample with the same name and labels is left out.
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
		ofFamily := u.kind == useValue || u.kind == useCount
		switch {
		case !usable && ofFamily:
			p.current.partial[u.family] = true
		case !usable:
		case ofFamily:
			refused = !p.addSample(u, labels, value) || refused
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

// usable leaves out labels whose values are too long or not UTF-8, and counts them. The sample itself is not usable if
// one of them says which model, engine or rank it is of.
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

// identity is a hash of a sample's name and labels, whatever the order of the labels.
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
