package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Experiment is a finite experiment: what a plan file says. Its target and its workload are written as those of the
// daemon's configuration. The reference is docs/sweep.md.
type Experiment struct {
	Name         string
	Target       *Target // its one plan runs Workload; nil where rules let it be left out
	Workload     *Workload
	Warmup       int           // requests before each level that measure nothing
	Timeout      time.Duration // of one request
	StallTimeout time.Duration
	Settle       time.Duration // bounds the wait for the server's queue to drain after a level
	Seed         int64         // of Poisson arrivals
	SLOs         []string      // such as ttft_p95=1s
	Levels       []ExperimentLevel
}

// ExperimentLevel is one load of a plan. Either Concurrency or Rate is above 0.
type ExperimentLevel struct {
	Concurrency  int
	Rate         float64 // requests a second
	Arrival      string  // constant or poisson; empty with Concurrency
	MaxInFlight  int     // 0: no bound
	PromptTokens int
	OutputTokens int
	Requests     int           // 0: no such limit
	Duration     time.Duration // 0: no such limit
}

// ExperimentDefaults is every value that a plan may leave out, beside those of its target and workload.
type ExperimentDefaults struct {
	Name         string
	Warmup       int
	Timeout      time.Duration
	StallTimeout time.Duration
	Settle       time.Duration
	Seed         int64
	Arrival      string
}

// DefaultExperiment returns the value of each key that a plan leaves out.
func DefaultExperiment() ExperimentDefaults {
	return ExperimentDefaults{
		Name: "sweep", Warmup: 5, Timeout: 5 * time.Minute, StallTimeout: time.Minute, Settle: 5 * time.Minute, Seed: 42,
		Arrival: "poisson",
	}
}

// Limits of a plan: what is beyond is a typing error.
const (
	maxPlanTimeout = 24 * time.Hour
	maxConcurrency = 100_000
	maxRate        = 100_000
	maxRequests    = 100_000_000
)

// ExperimentRules are the rules of a plan that belong to those who run it.
type ExperimentRules struct {
	// Objective checks an item of slos; nil: any is good.
	Objective func(text string) error
	// Virtual: no server is asked, so that there need be no target.
	Virtual bool
	// From is a target of a configuration file. It is in the place of the plan's. Flags are set on top of it and of its
	// workload; a plan file keeps its own workload.
	From *Choice
}

// LoadExperiment reads and parses the plan at path. Its errors are those of [Load].
func LoadExperiment(path string, rules ExperimentRules) (*Experiment, error) {
	data, err := readFile(path, "the plan")
	if err != nil {
		return nil, err
	}
	return ParseExperiment(path, data, rules)
}

// ParseExperiment makes a plan of data, the content of the file called filename. The error is of type [Errors].
func ParseExperiment(filename string, data []byte, rules ExperimentRules) (*Experiment, error) {
	d := planDecoder(rules)
	d.file = filename
	var raw rawPlan
	root := d.document(data)
	if root != nil {
		walk(d, "", root, planFields(rules), &raw)
	}
	return d.finishPlan(root, raw)
}

// Setting is a value of a plan that was given by a flag.
type Setting struct {
	Key   string // where it belongs, such as levels[0].concurrency
	Flag  string // what problems with it are named after
	Value string
	Text  bool // it is text, whatever it looks like; else it is read as YAML, of which JSON is a part
}

// ExperimentOf makes a plan of flags. It goes the same way as a file does; problems name the flag in place of a line.
func ExperimentOf(settings []Setting, rules ExperimentRules) (*Experiment, error) {
	d := planDecoder(rules)
	root := d.settings(settings)
	var raw rawPlan
	walk(d, "", root, planFields(rules), &raw)
	return d.finishPlan(root, raw)
}

// ProbeOf makes the target of a single probe of flags, set on top of what was chosen from a file, or of none. Its one
// plan is that of the probe. Unlike a plan it is not stored, so that it may hold secrets.
func ProbeOf(settings []Setting, from *Choice) (*Target, error) {
	d := planDecoder(ExperimentRules{From: from})
	var raw rawPlan
	walk(d, "", d.settings(settings), only(planFields(d.rules), "target", "workload"), &raw)
	p := d.plan(raw)
	if len(d.problems) > 0 {
		return nil, d.refused()
	}
	return p.Target, nil
}

// settings builds the nodes of flags.
func (d *decoder) settings(settings []Setting) *yaml.Node {
	d.flags = make(map[*yaml.Node]string)
	q := quick{d}
	root := q.mapping()
	for _, s := range settings {
		n := q.scalar(s.Flag, "!!str", s.Value)
		if !s.Text {
			n = q.parsed(s.Flag, s.Value)
		}
		if n != nil {
			q.place(root, s.Key, n)
		}
	}
	return root
}

func planDecoder(rules ExperimentRules) *decoder {
	return &decoder{rules: rules, hint: planHint, top: "target and levels"}
}

// finishPlan makes the effective plan, unless there are problems.
func (d *decoder) finishPlan(root *yaml.Node, raw rawPlan) (*Experiment, error) {
	var p *Experiment
	if root != nil {
		p = d.plan(raw)
		d.noSecrets(root)
	}
	if len(d.problems) > 0 {
		return nil, d.refused()
	}
	return p, nil
}

// plan makes the effective plan.
func (d *decoder) plan(raw rawPlan) *Experiment {
	v := DefaultExperiment()
	w := workload(raw.workload.v, d.baseWorkload())
	p := &Experiment{
		Name: raw.name.or(v.Name), Workload: w,
		Warmup: raw.warmup.or(v.Warmup), Timeout: raw.timeout.or(v.Timeout),
		StallTimeout: raw.stallTimeout.or(v.StallTimeout), Settle: raw.settle.or(v.Settle), Seed: raw.seed.or(v.Seed),
		SLOs: texts(raw.slos.or(nil)),
	}
	d.workloadRules("workload", raw.workload.v)
	defaults := Defaults()
	c := &Config{Global: Global{defaults.Interval, defaults.Timeout, defaults.StallTimeout, p.Warmup, defaults.RelayInterval}, Workloads: []*Workload{w}}
	p.Target = d.planTarget(raw.target, w, c)
	if raw.levels.at != nil && !raw.levels.bad && len(raw.levels.v) == 0 {
		d.problem(raw.levels.at, "levels", "lists no level: nothing would be run")
	}
	for _, e := range raw.levels.v {
		p.Levels = append(p.Levels, d.level(e, w))
	}
	return p
}

// baseWorkload is what a workload inherits from.
func (d *decoder) baseWorkload() *Workload {
	if d.rules.From != nil && d.flags != nil {
		return d.rules.From.Plan.Workload
	}
	return bareWorkload()
}

// planTarget makes the effective target: the plan's own, or that of a configuration file with the flags on top.
func (d *decoder) planTarget(raw value[rawTarget], w *Workload, c *Config) *Target {
	from := d.rules.From
	if from == nil && raw.at == nil {
		return nil
	}
	if from == nil {
		return d.target(entry[rawTarget]{raw: raw.v, at: raw.at, key: "target"}, c)
	}
	t := *from.Target
	plan := from.Plan
	plan.Workload = w
	t.Plans = []Plan{plan}
	if d.flags == nil {
		return &t
	}
	t.Model = raw.v.model.or(t.Model)
	if raw.v.metricsURL.at != nil {
		t.MetricsURL = d.page("target.metrics_url", raw.v.metricsURL, t.URL, "metrics")
	}
	if raw.v.client.v.TLSConfig.InsecureSkipVerify {
		t.HTTPClientConfig.TLSConfig.InsecureSkipVerify = true
	}
	return &t
}

// level makes an effective level.
func (d *decoder) level(e entry[rawLevel], w *Workload) ExperimentLevel {
	raw := e.raw
	l := ExperimentLevel{
		Concurrency: raw.concurrency.or(0), Rate: raw.rate.or(0), MaxInFlight: raw.maxInFlight.or(0),
		PromptTokens: raw.promptTokens.or(w.PromptTokens), OutputTokens: raw.outputTokens.or(w.OutputTokens),
		Requests: raw.requests.or(0), Duration: raw.duration.or(0),
	}
	closed, open := raw.concurrency.at, raw.rate.at
	switch {
	case closed == nil && open == nil:
		d.problem(e.at, e.key, "needs concurrency, for a closed loop, or rate, for an open one")
	case closed != nil && open != nil:
		d.problem(open, e.key+".rate", "a level has concurrency or rate, not both")
	case closed != nil && raw.arrival.at != nil:
		d.problem(raw.arrival.at, e.key+".arrival", "belongs to a level with rate")
	case closed != nil && raw.maxInFlight.at != nil:
		d.problem(raw.maxInFlight.at, e.key+".max_in_flight", "belongs to a level with rate")
	}
	if closed == nil {
		l.Arrival = raw.arrival.or(DefaultExperiment().Arrival)
	}
	if raw.requests.at == nil && raw.duration.at == nil {
		d.problem(e.at, e.key, "needs requests or duration, or it would not end")
	}
	return l
}

// noSecrets reports what must not be in a plan, since plans are stored with their results: every value that the
// daemon would hide on its page.
func (d *decoder) noSecrets(root *yaml.Node) {
	target, body := child(root, "target"), child(child(root, "workload"), "extra_body")
	for _, part := range []struct {
		key  string
		n    *yaml.Node
		hide func(*yaml.Node)
	}{
		{"target.url", child(target, "url"), redactURL},
		{"target.metrics_url", child(target, "metrics_url"), redactURL},
		{"target.http_client_config", child(target, "http_client_config"), redactClient},
		{"workload.extra_body", body, redact},
	} {
		if d.rules.From != nil && strings.HasPrefix(part.key, "target.") {
			continue // it is not used, or comes from flags that hold none
		}
		hidden := clone(part.n)
		part.hide(hidden)
		d.leaks(part.key, part.n, hidden)
	}
}

// leaks reports where n and its redacted copy differ.
func (d *decoder) leaks(key string, n, hidden *yaml.Node) {
	if strings.Contains(n.Value, secret) || strings.Contains(n.Value, url.PathEscape(secret)) {
		d.hinted(n, key, "run the plan with --config.file and --target, or name a file that holds it", "was a secret of a configuration file, which is not stored with a plan")
		return
	}
	if n.Value != hidden.Value {
		d.hinted(n, key, "name a file that holds it: http_client_config has credentials_file, password_file, key_file and, for a header, files", "a secret has no place in a plan, which is stored with its results")
		return
	}
	for i := range n.Content {
		at := fmt.Sprintf("%s[%d]", key, i)
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			at = join(key, n.Content[i-1].Value)
		}
		d.leaks(at, n.Content[i], hidden.Content[i])
	}
}

// clone copies a tree of nodes.
func clone(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		c.Content[i] = clone(child)
	}
	return &c
}

// absolute makes the names of files in the target's client independent of the working folder.
func (p *Experiment) absolute() error {
	here, err := filepath.Abs(".")
	if err != nil {
		return fmt.Errorf("finding the working folder: %w", err)
	}
	if p.Target != nil {
		p.Target.HTTPClientConfig.SetDirectory(here)
	}
	return nil
}

// Named returns the plan under another name.
func (p *Experiment) Named(name string) (*Experiment, error) {
	if !fileNames.MatchString(name) {
		return nil, Errors{{Key: "--name", Msg: fileNameRule}}
	}
	named := *p
	named.Name = name
	return &named, nil
}
