// Package config turns the YAML of llm_prober into one validated value.
//
// Everything in a [Config] is effective: defaults are filled in, a target's overrides are applied, and each
// target carries the plans that it runs. What cannot be run is refused, all problems at once, each with its
// line (see [Errors]). The reference is docs/configuration.md.
package config

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"slices"
	"time"

	promconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"
)

// Config is a whole validated configuration. It is not changed after [Parse]; a reload makes a new one.
type Config struct {
	Global    Global
	Workloads []*Workload
	Targets   []*Target
	Groups    []*TargetGroup
	SLOs      []SLO

	// doubts are the warnings found while parsing, with their lines.
	doubts []Problem
	files  []namedFile
}

// Global holds what every target inherits.
type Global struct {
	Interval      time.Duration `yaml:"interval" kind:"interval"`
	Timeout       time.Duration `yaml:"timeout" kind:"timeout"`
	StallTimeout  time.Duration `yaml:"stall_timeout" kind:"timeout"`
	Warmup        int           `yaml:"warmup" kind:"warmup"`
	RelayInterval time.Duration `yaml:"relay_interval" kind:"interval"`
	Histograms    string        `yaml:"histograms" kind:"histograms"` // both, classic or native
}

// Workload is the fixed shape of a request.
type Workload struct {
	Name           string         `yaml:"name" kind:"name" default:"api-prompt_tokens-output_tokens" plan:"-"`
	API            string         `yaml:"api" kind:"api"` // chat or completions
	PromptTokens   int            `yaml:"prompt_tokens" kind:"tokens"`
	OutputTokens   int            `yaml:"output_tokens" kind:"tokens"`
	Arrival        string         `yaml:"arrival" kind:"arrival" plan:"-"`                                                                  // constant or poisson
	MaxInFlight    int            `yaml:"max_in_flight,omitempty" kind:"in_flight" default:"ceil(timeout/interval)+1, at most 64" plan:"-"` // 0: each plan derives its own from timeout and interval
	Seed           int64          `yaml:"seed" kind:"seed"`
	Temperature    float64        `yaml:"temperature" kind:"temperature"`
	MaxTokensField string         `yaml:"max_tokens_field" kind:"max_tokens_field"`
	DropFields     []string       `yaml:"drop_fields,omitempty" kind:"drop_fields"`
	ExtraBody      map[string]any `yaml:"extra_body,omitempty" kind:"extra_body" default:"{chat_template_kwargs: {enable_thinking: false}} for chat"` // JSON values: nil, bool, int64, uint64, float64, string, []any, map[string]any
}

// Target is one server and all that is asked of it. Two targets are unchanged by a reload if
// reflect.DeepEqual says so: it holds plain values only.
type Target struct {
	Name    string
	Group   string   // the target group that it is a member of; empty: it stands in the file by itself
	URL     *url.URL // root of the server: lower-case scheme and host; no user information, no trailing slash, no query
	APIPath string   // of the API below URL, without a trailing slash; "/": none
	Host    string   // header Host of every request; empty: that of URL
	Model   string   // empty: the first that the server lists
	Plans   []Plan

	Warmup        int           // successful probes that measure nothing
	RelayInterval time.Duration // between two reads of MetricsURL
	MetricsURL    string        // empty: the relay is off
	HealthURL     string        // empty: not asked
	MetricsNamed  bool          // the file has metrics_url, whatever its value
	HealthNamed   bool          // the file has health_url, whatever its value
	Engine        string        // auto, or the name of one that the relay knows
	Labels        map[string]string
	IPFamily      string // any, ipv4 or ipv6
	Histograms    string // both, classic or native

	// HTTPClientConfig has absolute file paths, or paths relative to the working folder if the name of
	// the configuration file was; user information of the URL has become its basic_auth.
	HTTPClientConfig promconfig.HTTPClientConfig
}

// Plan is a workload as one target runs it.
type Plan struct {
	Workload     *Workload
	Interval     time.Duration
	Timeout      time.Duration
	StallTimeout time.Duration
	Arrival      string
	MaxInFlight  int
}

// SLO is one objective over the probes of some targets and workloads.
type SLO struct {
	Name      string        `yaml:"name" kind:"name" required:"true"`
	Indicator string        `yaml:"indicator" kind:"indicator" required:"true"` // ttft, itl_p95, itl_max, duration or success
	Threshold time.Duration `yaml:"threshold,omitempty" kind:"timeout"`         // 0 for success, which has none
	Objective float64       `yaml:"objective" kind:"percent" required:"true"`   // the ratio of good events that is promised, between 0 and 1
	Targets   []string      `yaml:"targets,omitempty" kind:"names" default:"all"`
	Workloads []string      `yaml:"workloads,omitempty" kind:"names" default:"all"`
}

// Covers reports whether probes of workload at target t give this SLO events. Members are covered as their group is.
func (s SLO) Covers(t *Target, workload string) bool {
	return among(s.Targets, cmp.Or(t.Group, t.Name)) && among(s.Workloads, workload)
}

// among reports whether name is in names, where an empty list stands for all.
func among(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

// maxFile bounds a configuration file in bytes; a thousand targets take about 0.3 MB, and a ConfigMap of Kubernetes has
// at most 1 MiB.
const maxFile = 4 << 20

// Load reads and parses the file at path. The error is the operating system's, wrapped and with the path,
// if the file cannot be read, and [Errors] if its content is wrong.
func Load(path string) (*Config, error) {
	data, err := readFile(path, "the configuration")
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// readFile reads a file that a person wrote.
func readFile(path, what string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("reading %s: %s is larger than %d MiB", what, path, maxFile>>20)
	}
	return data, nil
}

// Parse makes a configuration from data, the content of the file called filename; file names inside it are
// relative to that file's folder. The error is of type [Errors]. Parse itself touches no file.
func Parse(filename string, data []byte) (*Config, error) {
	d := newDecoder()
	d.file = filename
	root := d.document(data)
	if root == nil {
		return nil, d.refused()
	}
	d.placeholders(root)
	return d.config(root)
}

// config makes the effective configuration of mapping root, unless there are problems.
func (d *decoder) config(root *yaml.Node) (*Config, error) {
	if child(root, "target_groups").Kind != 0 {
		d.optional = append(d.optional, "targets")
	}
	var s sections
	d.value("", root, reflect.ValueOf(&s).Elem())
	c := d.resolve(&s)
	if len(d.problems) > 0 {
		return nil, d.refused()
	}
	c.doubts, c.files = d.doubts.sorted(), d.files
	return c, nil
}
