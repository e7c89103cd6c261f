package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/dns"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"go.yaml.in/yaml/v3"

	"github.com/llm-prober/llm_prober/internal/histogram"
	"github.com/llm-prober/llm_prober/internal/relay"
)

// reader makes the value of node n of key. After a problem with key the value is not used.
type reader[V any] func(d *decoder, key string, n *yaml.Node) V

// kindOf makes a kind of a reader of Vs.
func kindOf[V any](doc string, read reader[V]) kind {
	return kind{doc: doc, read: func(d *decoder, key string, n *yaml.Node) any { return read(d, key, n) }}
}

// kind is what a value may be.
type kind struct {
	doc  string // how the reference writes it
	read reader[any]
	hide func(*yaml.Node) // replaces secrets; nil: there are none
}

func (k kind) hidden(hide func(*yaml.Node)) kind {
	k.hide = hide
	return k
}

// What the longest durations have to do with.
const (
	lastBound = "the last bound of the latency histograms"
	gapBound  = "the last bound of the inter-token latency histogram"
	typo      = "this is probably a typing error"
)

// kinds returns every kind of value by the name that tags use.
func kinds() map[string]kind {
	const ms = time.Millisecond
	return map[string]kind{
		"name":                  kindOf("<string>", name),
		"names":                 kindOf("[<string>, ...]", names(name)),
		"interval":              kindOf("<duration>", duration(MinInterval, math.MaxInt64, "")),
		"timeout":               kindOf("<duration>", duration(ms, MaxTimeout, lastBound)),
		"warmup":                kindOf("<int>", integer(0, maxWarmup)),
		"api":                   kindOf("<api>", enum("chat", "completions")),
		"tokens":                kindOf("<int>", integer(1, maxTokens)),
		"arrival":               kindOf("<arrival>", enum("constant", "poisson")),
		"in_flight":             kindOf("<int>", integer(1, MaxInFlightCap)),
		"seed":                  kindOf("<int>", integer(math.MinInt64, math.MaxInt64)),
		"temperature":           kindOf("<float>", number(0, 2)),
		"max_tokens_field":      kindOf("<string>", enum("max_tokens", "max_completion_tokens")),
		"drop_fields":           kindOf("[<string>, ...]", names(enum(DroppableFields()...))),
		"extra_body":            kindOf("<json>", body).hidden(redact),
		"url":                   kindOf("<url>", scalar).hidden(redactURL),
		"path":                  kindOf("<path>", apiPath),
		"host":                  kindOf("<string>", matching(name, hostHeader, "is not the name of a host, with or without a port")),
		"engine":                kindOf("<engine>", enum(relay.Engines()...)),
		"labels":                kindOf("<labels>", labels),
		"histograms":            kindOf("<histograms>", enum(histogram.Kinds()...)),
		"ip_family":             kindOf("<ip_family>", enum("any", "ipv4", "ipv6")),
		"http_client_config":    kindOf("<http_client_config>", httpClient).hidden(redactClient),
		"indicator":             kindOf("<indicator>", enum("ttft", "itl_p95", "itl_max", "duration", "success")),
		"percent":               kindOf("<percent>", percent),
		"folder":                kindOf("<string>", matching(scalar, fileNames, fileNameRule)),
		"plan_timeout":          kindOf("<duration>", duration(ms, maxPlanTimeout, typo)),
		"settle":                kindOf("<duration>", duration(0, maxPlanTimeout, typo)),
		"plan_seed":             kindOf("<int>", integer(0, math.MaxInt64)),
		"objectives":            kindOf("[<objective>, ...]", names(objective)),
		"streams":               kindOf("<int>", integer(1, maxConcurrency)),
		"rate":                  kindOf("<float>", number(math.SmallestNonzeroFloat64, maxRate)),
		"target_limit":          kindOf("<int>", integer(1, maxLimit)),
		"static_configs":        kindOf("[<static_config>, ...]", staticConfigs),
		"file_sd_configs":       kindOf("[<file_sd_config>, ...]", sdConfigs[file.SDConfig]),
		"http_sd_configs":       kindOf("[<http_sd_config>, ...]", sdConfigs[http.SDConfig]).hidden(redactSources),
		"dns_sd_configs":        kindOf("[<dns_sd_config>, ...]", sdConfigs[dns.SDConfig]),
		"kubernetes_sd_configs": kindOf("[<kubernetes_sd_config>, ...]", sdConfigs[kubernetes.SDConfig]).hidden(redactSources),
		"relabel_configs":       kindOf("[<relabel_config>, ...]", relabelConfigs),
		"requests":              kindOf("<int>", integer(1, maxRequests)),
	}
}

// scalar returns the text of a single value, as it stands in the file.
func scalar(d *decoder, key string, n *yaml.Node) string {
	switch {
	case isNull(n):
		d.problem(n, key, "has no value: write one, or leave the key out")
	case n.Kind != yaml.ScalarNode:
		d.problem(n, key, "must be a single value, not %s", article(n))
	}
	return n.Value
}

// name reads a text that becomes a label value or is looked up by others.
func name(d *decoder, key string, n *yaml.Node) string {
	s := scalar(d, key, n)
	switch {
	case d.bad[key]:
	case s == "" || strings.TrimSpace(s) != s:
		d.problem(n, key, "must not be empty, nor begin or end with a space")
	case len(s) > maxName:
		d.problem(n, key, "must have at most %d bytes, not %d", maxName, len(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		d.problem(n, key, "must not contain control characters")
	}
	return s
}

// matching reads a text of a form.
func matching(read reader[string], form *regexp.Regexp, rule string) reader[string] {
	return func(d *decoder, key string, n *yaml.Node) string {
		s := read(d, key, n)
		if !d.bad[key] && !form.MatchString(s) {
			d.problem(n, key, "%s", rule)
		}
		return s
	}
}

// fileNames are safe on every file system and need no quotes.
var fileNames = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

const fileNameRule = "becomes the name of a folder: at most 100 letters, digits, dots, dashes and underscores, not beginning with a dot or dash"

// enum reads one of a few words.
func enum[S ~string](values ...S) reader[string] {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return func(d *decoder, key string, n *yaml.Node) string {
		s := scalar(d, key, n)
		if !d.bad[key] && !slices.Contains(words, s) {
			d.hinted(n, key, d.near(s, words), "%q is not one of %s", clip(s), strings.Join(words, ", "))
		}
		return s
	}
}

// objective reads a bound on a latency; those who run the plan say which there are.
func objective(d *decoder, key string, n *yaml.Node) string {
	s := scalar(d, key, n)
	if !d.bad[key] && d.rules.Objective != nil {
		if err := d.rules.Objective(s); err != nil {
			d.problem(n, key, "%s", err)
		}
	}
	return s
}

// duration reads a Prometheus duration between least and most.
func duration(least, most time.Duration, why string) reader[time.Duration] {
	return func(d *decoder, key string, n *yaml.Node) time.Duration {
		s := scalar(d, key, n)
		parsed, err := model.ParseDuration(s)
		v := time.Duration(parsed)
		switch {
		case d.bad[key]:
		case strings.HasPrefix(s, "-"):
			d.problem(n, key, "must not be negative")
		case err != nil:
			d.hinted(n, key, durationHint(s), "%q is not a duration", clip(s))
		case v < least:
			d.problem(n, key, "must be at least %s, not %s", short(least), s)
		case v > most:
			d.hinted(n, key, why, "must be at most %s, not %s", short(most), s)
		}
		return v
	}
}

// integer reads a whole number between least and most.
func integer(least, most int64) reader[int64] {
	return func(d *decoder, key string, n *yaml.Node) (v int64) {
		s := scalar(d, key, n)
		switch {
		case d.bad[key]:
		case n.ShortTag() != "!!int" || n.Decode(&v) != nil:
			d.problem(n, key, "%q is not a whole number%s", clip(s), unquote(n))
		case v < least || v > most:
			d.problem(n, key, "must be from %d to %d, not %d", least, most, v)
		}
		return v
	}
}

// number reads a finite number between least and most; the smallest number there is stands for above 0.
func number(least, most float64) reader[float64] {
	return func(d *decoder, key string, n *yaml.Node) (v float64) {
		s, tag := scalar(d, key, n), n.ShortTag()
		switch {
		case d.bad[key]:
		case tag != "!!int" && tag != "!!float" || n.Decode(&v) != nil:
			d.problem(n, key, "%q is not a number%s", clip(s), unquote(n))
		case v == 0 && least == math.SmallestNonzeroFloat64:
			d.problem(n, key, "must be above 0")
		case math.IsNaN(v) || v < least || v > most:
			d.problem(n, key, "must be from %v to %v, not %s", math.Trunc(least), most, s)
		}
		return v
	}
}

// unquote points out that a number was written as text.
func unquote(n *yaml.Node) string {
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		return ": write it without quotes"
	}
	return ""
}

// percent reads a percentage strictly between 0 and 100 as a ratio.
func percent(d *decoder, key string, n *yaml.Node) float64 {
	if text, ok := strings.CutSuffix(n.Value, "%"); ok && n.Kind == yaml.ScalarNode {
		d.hinted(n, key, fmt.Sprintf("did you mean %s?", clip(strings.TrimSpace(text))), "must be a number, without the per cent sign")
		return 0
	}
	v := number(math.Inf(-1), math.Inf(1))(d, key, n)
	if !d.bad[key] && (v <= 0 || v >= 100) {
		d.problem(n, key, "must be above 0 and below 100 (per cent), not %s", clip(n.Value))
	}
	return shift(v, -2)
}

// shift moves the decimal point of v, so that 99.9 per cent become 0.999 and not 0.9990000000000001.
func shift(v float64, places int) float64 {
	text := strconv.FormatFloat(v, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	e, _ := strconv.Atoi(exponent)                                        // FormatFloat wrote it
	out, _ := strconv.ParseFloat(mantissa+"e"+strconv.Itoa(e+places), 64) // as above
	return out
}

// names reads a list of names without repetitions. An item with a problem is empty.
func names(read reader[string]) reader[[]string] {
	return func(d *decoder, key string, n *yaml.Node) (list []string) {
		if n.Kind != yaml.SequenceNode {
			d.hinted(n, key, listHint(n), "must be a list, not %s", article(n))
			return nil
		}
		seen := make(map[string]bool)
		for i, item := range n.Content {
			at := itemKey(key, i)
			d.nodes[at] = item
			s := read(d, at, item)
			if !d.bad[at] && seen[s] {
				d.problem(item, at, "%q stands in the list already", clip(s))
			}
			if d.bad[at] {
				s = ""
			}
			seen[s] = s != ""
			list = append(list, s)
		}
		return list
	}
}

// listHint says how to write the list of one that n was meant as.
func listHint(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		return "write [a, b]"
	}
	return fmt.Sprintf("did you mean [%s]?", clip(n.Value))
}

// labels reads the custom labels of a target.
func labels(d *decoder, key string, n *yaml.Node) map[string]string {
	if n.Kind != yaml.MappingNode {
		d.problem(n, key, "must be a mapping of label names to values, not %s", article(n))
		return nil
	}
	out := make(map[string]string)
	d.keys(key, n, func(at string, name, child *yaml.Node) {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name.Value):
			d.problem(name, at, "is not a label name: letters, digits and underscores, not beginning with a digit")
		case strings.HasPrefix(name.Value, "__"):
			d.problem(name, at, "label names beginning with two underscores are reserved")
		case slices.Contains(ReservedLabels(), name.Value):
			d.problem(name, at, "is a reserved label name")
		}
		if len(name.Value) > maxName {
			d.problem(name, at, "a label name must have at most %d bytes, not %d", maxName, len(name.Value))
		}
		if out[name.Value] = scalar(d, at, child); len(child.Value) > maxName {
			d.problem(child, at, "a label value must have at most %d bytes, not %d: every series of the target repeats it", maxName, len(child.Value))
		}
	})
	if len(out) > maxLabels {
		d.problem(n, key, "must be at most %d labels, not %d: every series of the target repeats them", maxLabels, len(out))
	}
	return out
}

// body reads fields of a JSON object.
func body(d *decoder, key string, n *yaml.Node) map[string]any {
	if n.Kind != yaml.MappingNode {
		d.problem(n, key, "must be a mapping of request fields to values, not %s", article(n))
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if name := n.Content[i]; slices.Contains(OwnedFields(), name.Value) {
			d.hinted(name, join(key, name.Value), ownedHint(name.Value), "the prober sets this field itself")
		}
	}
	return jsonValue(d, key, n).(map[string]any)
}

// ownedHint names the key that sets an owned field of the request.
func ownedHint(field string) string {
	switch field {
	case "model":
		return "write model in the target"
	case "seed", "temperature":
		return "write " + field + " in the workload"
	case "max_tokens", "max_completion_tokens", "min_tokens":
		return "write output_tokens in the workload"
	}
	return ""
}

// jsonValue returns what a JSON encoder takes for n.
func jsonValue(d *decoder, key string, n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any)
		d.keys(key, n, func(at string, name, child *yaml.Node) { object[name.Value] = jsonValue(d, at, child) })
		return object
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = jsonValue(d, itemKey(key, i), item)
		}
		return list
	}
	var v any
	switch tag := n.ShortTag(); {
	case d.ambiguous(n, key):
		return nil
	case tag == "!!str", tag == "!!timestamp":
		return n.Value
	case slices.Contains([]string{"!!null", "!!bool", "!!int", "!!float"}, tag) && n.Decode(&v) == nil:
		switch x := v.(type) {
		case nil, bool, uint64, int64:
			return x
		case int:
			return int64(x)
		case float64:
			if tag == "!!float" && !math.IsNaN(x) && !math.IsInf(x, 0) {
				return x
			}
		}
	}
	d.problem(n, key, "has a value that JSON cannot express")
	return nil
}
