package config

import (
	"cmp"
	"net/url"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Experiment is a finite experiment: what a plan file says. Its target and its workload are written as those of the
// daemon's configuration. The reference is docs/sweep.md.
type Experiment struct {
	Name         string            `yaml:"name" kind:"folder"`
	Target       *Target           `yaml:"target"` // its one plan runs Workload; nil where rules let it be left out
	Workload     *Workload         `yaml:"workload" doc:"<workload>" default:"chat-512-128"`
	Warmup       int               `yaml:"warmup" kind:"warmup"`        // requests before each level that measure nothing
	Timeout      time.Duration     `yaml:"timeout" kind:"plan_timeout"` // of one request
	StallTimeout time.Duration     `yaml:"stall_timeout" kind:"plan_timeout"`
	Settle       time.Duration     `yaml:"settle" kind:"settle"`             // bounds the wait for the server's queue to drain after a level
	Seed         int64             `yaml:"seed" kind:"plan_seed"`            // of Poisson arrivals
	SLOs         []string          `yaml:"slos,omitempty" kind:"objectives"` // such as ttft_p95=1s
	Levels       []ExperimentLevel `yaml:"levels,flow" doc:"[<level>, ...]" required:"true"`
}

// ExperimentLevel is one load of a plan. Either Concurrency or Rate is above 0.
type ExperimentLevel struct {
	Concurrency  int           `yaml:"concurrency,omitempty" kind:"streams"`
	Rate         float64       `yaml:"rate,omitempty" kind:"rate"`                                // requests a second
	Arrival      string        `yaml:"arrival,omitempty" kind:"arrival" default:"poisson"`        // constant or poisson; empty with Concurrency
	MaxInFlight  int           `yaml:"max_in_flight,omitempty" kind:"streams" default:"no bound"` // 0: no bound
	PromptTokens int           `yaml:"prompt_tokens" kind:"tokens" default:"as in workload"`
	OutputTokens int           `yaml:"output_tokens" kind:"tokens" default:"as in workload"`
	Requests     int           `yaml:"requests,omitempty" kind:"requests" default:"no limit"`     // 0: no such limit
	Duration     time.Duration `yaml:"duration,omitempty" kind:"plan_timeout" default:"no limit"` // 0: no such limit
}

// ExperimentDefaults is every value that a plan may leave out, beside those of its target and workload.
type ExperimentDefaults struct {
	Experiment
	Arrival string // of a level
}

// DefaultExperiment returns the value of each key that a plan leaves out.
func DefaultExperiment() ExperimentDefaults {
	return ExperimentDefaults{
		Experiment: Experiment{Name: "sweep", Warmup: 5, Timeout: 5 * time.Minute, StallTimeout: time.Minute, Settle: 5 * time.Minute, Seed: 42},
		Arrival:    "poisson",
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
	d := planDecoder(rules, true)
	d.file = filename
	return d.finishPlan(d.document(data))
}

// ExperimentOf makes a plan of flags. It goes the same way as a file does; problems name the flag in place of a line.
func ExperimentOf(settings []Setting, rules ExperimentRules) (*Experiment, error) {
	d := planDecoder(rules, true)
	return d.finishPlan(d.settings(settings))
}

// ProbeOf makes the target of a single probe of flags, set on top of what was chosen from a file, or of none. Its one
// plan is that of the probe. Unlike a plan it is not stored, so that it may hold secrets.
func ProbeOf(settings []Setting, from *Choice) (*Target, error) {
	d := planDecoder(ExperimentRules{From: from}, false)
	d.optional = append(d.optional, "levels")
	p, err := d.finishPlan(d.settings(settings))
	if err != nil {
		return nil, err
	}
	return p.Target, nil
}

// planDecoder reads a plan that is stored with its results, or is not.
func planDecoder(rules ExperimentRules, stored bool) *decoder {
	d := newDecoder()
	d.schema, d.rules = newSchema(true), rules
	if rules.Virtual || rules.From != nil {
		d.optional = []string{"target"}
	}
	if rules.From != nil {
		d.optional = append(d.optional, "target.url")
	}
	d.stored = func(key string) bool {
		return stored && (rules.From == nil || !strings.HasPrefix(key, "target.")) // else it is not used, or comes from flags that hold none
	}
	return d
}

// finishPlan makes the effective plan of root, unless there are problems. Without root there is one already.
func (d *decoder) finishPlan(root *yaml.Node) (*Experiment, error) {
	var p *Experiment
	if root != nil {
		if d.rules.From != nil && d.flags != nil {
			d.base.Workload = *d.rules.From.Plan.Workload
		}
		var s planSections
		d.value("", root, reflect.ValueOf(&s).Elem())
		p = d.experiment(&s)
	}
	if len(d.problems) > 0 {
		return nil, d.refused()
	}
	return p, nil
}

// experiment makes the effective plan.
func (d *decoder) experiment(s *planSections) *Experiment {
	p := s.Experiment
	p.Workload = d.workload("workload", *s.Workload)
	p.Target = d.planTarget(s.Target, p.Workload, p.Warmup)
	if d.ok("levels") && len(p.Levels) == 0 {
		d.problemAt("levels", "", "lists no level: nothing would be run")
	}
	for i := range p.Levels {
		d.level(itemKey("levels", i), &p.Levels[i], p.Workload)
	}
	return &p
}

// planTarget makes the effective target: the plan's own, or that of a configuration file with the flags on top.
func (d *decoder) planTarget(s *target, w *Workload, warmup int) *Target {
	from := d.rules.From
	if from == nil && s == nil {
		return nil
	}
	if from == nil {
		s.Warmup = warmup
		return d.target("target", s, []*Workload{w})
	}
	t := *from.Target
	plan := from.Plan
	plan.Workload = w
	t.Plans = []Plan{plan}
	if d.flags == nil || s == nil {
		return &t
	}
	t.Model = cmp.Or(s.Model, t.Model)
	if s.MetricsURL != nil {
		t.MetricsURL = d.page("target.metrics_url", s.MetricsURL, t.URL, "metrics")
	}
	if s.Client.TLSConfig.InsecureSkipVerify {
		t.HTTPClientConfig.TLSConfig.InsecureSkipVerify = true
	}
	return &t
}

// level makes level l, known as key, effective.
func (d *decoder) level(key string, l *ExperimentLevel, w *Workload) {
	l.PromptTokens, l.OutputTokens = cmp.Or(l.PromptTokens, w.PromptTokens), cmp.Or(l.OutputTokens, w.OutputTokens)
	given := func(k string) bool { return d.at(key+"."+k) != nil }
	closed := given("concurrency")
	switch {
	case !closed && !given("rate"):
		d.problemAt(key, "", "needs concurrency, for a closed loop, or rate, for an open one")
	case closed && given("rate"):
		d.problemAt(key+".rate", "", "a level has concurrency or rate, not both")
	case closed && given("arrival"):
		d.problemAt(key+".arrival", "", "belongs to a level with rate")
	case closed && given("max_in_flight"):
		d.problemAt(key+".max_in_flight", "", "belongs to a level with rate")
	}
	if !closed {
		l.Arrival = cmp.Or(l.Arrival, DefaultExperiment().Arrival)
	}
	if !given("requests") && !given("duration") {
		d.problemAt(key, "", "needs requests or duration, or it would not end")
	}
}

// leaks reports where n and its redacted copy differ.
func (d *decoder) leaks(key string, n, hidden *yaml.Node) {
	if strings.Contains(n.Value, secret) || strings.Contains(n.Value, url.PathEscape(secret)) {
		d.report(n, key, "run the plan with --config.file and --target, or name a file that holds it", "was a secret of a configuration file, which is not stored with a plan")
		return
	}
	if n.Value != hidden.Value {
		d.report(n, key, "name a file that holds it: http_client_config has credentials_file, password_file, key_file and, for a header, files", "a secret has no place in a plan, which is stored with its results")
		return
	}
	for i := range n.Content {
		at := itemKey(key, i)
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

// Named returns the plan under another name.
func (p *Experiment) Named(name string) (*Experiment, error) {
	if !fileNames.MatchString(name) {
		return nil, Errors{{Key: "--name", Msg: fileNameRule}}
	}
	named := *p
	named.Name = name
	return &named, nil
}
