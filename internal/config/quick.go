package config

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// QuickOptions is a configuration small enough for flags. Zero values are left out.
type QuickOptions struct {
	URLs         []string      // --target.url, at least one
	Model        string        // --target.model
	APIKeyFile   string        // --target.api-key-file, relative to the working folder
	Interval     time.Duration // --probe.interval
	PromptTokens int           // --probe.prompt-tokens
	OutputTokens int           // --probe.output-tokens
}

// Quick makes a configuration of flags. It is built as the YAML that a person would have written and goes
// the same way as a file does; problems name the flag in place of a line. Targets are called after their
// host and port, or by their whole URL where two would share that.
func Quick(o QuickOptions) (*Config, error) {
	q := quick{newDecoder()}
	q.d.flags = make(map[*yaml.Node]string)
	root := q.mapping()
	if len(o.URLs) == 0 {
		q.d.problems = append(q.d.problems, Problem{Key: "--target.url", Msg: "is missing"})
	}
	if o.Interval != 0 {
		set(root, "global", set(q.mapping(), "interval", q.scalar("--probe.interval", "!!str", exactly(o.Interval))))
	}
	set(root, "workloads", q.list(q.workload(o)))
	targets := q.list()
	for i := range o.URLs {
		targets.Content = append(targets.Content, q.target(o, i))
	}
	set(root, "targets", targets)
	var raw rawConfig
	walk(q.d, "", root, configFields(), &raw)
	return q.d.finish(raw)
}

// quick builds YAML nodes that remember their flag.
type quick struct{ d *decoder }

func (q quick) mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

func (q quick) list(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

func (q quick) scalar(flag, tag, text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
	q.d.flags[n] = flag
	return n
}

// set adds a key to mapping n and returns n.
func set(n *yaml.Node, key string, val *yaml.Node) *yaml.Node {
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, val)
	return n
}

func (q quick) workload(o QuickOptions) *yaml.Node {
	w := q.mapping()
	if o.PromptTokens != 0 {
		set(w, "prompt_tokens", q.scalar("--probe.prompt-tokens", "!!int", strconv.Itoa(o.PromptTokens)))
	}
	if o.OutputTokens != 0 {
		set(w, "output_tokens", q.scalar("--probe.output-tokens", "!!int", strconv.Itoa(o.OutputTokens)))
	}
	return w
}

func (q quick) target(o QuickOptions, i int) *yaml.Node {
	flag := "--target.url"
	if len(o.URLs) > 1 {
		flag = fmt.Sprintf("--target.url[%d]", i)
	}
	t := set(q.mapping(), "url", q.scalar(flag, "!!str", o.URLs[i]))
	if name := uniqueName(o.URLs, i); name != "" {
		set(t, "name", q.scalar(flag, "!!str", name))
	}
	if o.Model != "" {
		set(t, "model", q.scalar("--target.model", "!!str", o.Model))
	}
	if o.APIKeyFile != "" {
		file := set(q.mapping(), "credentials_file", q.scalar("--target.api-key-file", "!!str", o.APIKeyFile))
		set(t, "http_client_config", set(q.mapping(), "authorization", file))
	}
	return t
}

// uniqueName returns the name of the i-th of several URLs if its host and port alone would not do.
func uniqueName(urls []string, i int) string {
	u, _, msg, _ := baseURL(urls[i])
	if msg != "" {
		return "" // reported when the URL is read
	}
	for j, other := range urls {
		o, _, msg, _ := baseURL(other)
		if j != i && msg == "" && hostPort(o) == hostPort(u) && placeOf(o) != placeOf(u) {
			return placeOf(u)
		}
	}
	return ""
}

// placeOf is the address of a server, without the path of its API where that is the usual one.
func placeOf(u *url.URL) string {
	if root, apiPath := splitAPI(u); apiPath == defaultAPIPath {
		return root.String()
	}
	return u.String()
}

// exactly writes d as Prometheus does, or as Go does if that would lose something.
func exactly(d time.Duration) string {
	if d%time.Millisecond != 0 {
		return d.String()
	}
	return model.Duration(d).String()
}
