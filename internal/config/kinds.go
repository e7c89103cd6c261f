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
	"go.yaml.in/yaml/v3"
)

// scalar returns the text of a single value, as it stands in the file.
func scalar(d *decoder, key string, n *yaml.Node) (string, bool) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		d.problem(n, key, "has no value: write one, or leave the key out")
		return "", false
	}
	if n.Kind != yaml.ScalarNode {
		d.problem(n, key, "must be a single value, not %s", article(n))
		return "", false
	}
	return n.Value, true
}

// name reads a text that becomes a label value or is looked up by others.
func name(d *decoder, key string, n *yaml.Node) (string, bool) {
	s, ok := scalar(d, key, n)
	switch {
	case !ok:
		return "", false
	case s == "" || strings.TrimSpace(s) != s:
		d.problem(n, key, "must not be empty, nor begin or end with a space")
	case len(s) > maxName:
		d.problem(n, key, "must have at most %d bytes, not %d", maxName, len(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		d.problem(n, key, "must not contain control characters")
	default:
		return s, true
	}
	return "", false
}

// enum reads one of a few words.
func enum(words ...string) func(*decoder, string, *yaml.Node) (string, bool) {
	return func(d *decoder, key string, n *yaml.Node) (string, bool) {
		s, ok := scalar(d, key, n)
		if ok && !slices.Contains(words, s) {
			d.hinted(n, key, d.near(s, words), "%q is not one of %s", clip(s), strings.Join(words, ", "))
			return "", false
		}
		return s, ok
	}
}

// duration reads a Prometheus duration between least and most; most 0 is no limit.
func duration(least, most time.Duration, why string) reader {
	return func(d *decoder, key string, n *yaml.Node) (any, bool) {
		s, ok := scalar(d, key, n)
		if !ok {
			return 0, false
		}
		parsed, err := model.ParseDuration(s)
		v := time.Duration(parsed)
		switch {
		case strings.HasPrefix(s, "-"):
			d.problem(n, key, "must not be negative")
		case err != nil:
			d.hinted(n, key, durationHint(s), "%q is not a duration", clip(s))
		case v < least:
			d.problem(n, key, "must be at least %s, not %s", model.Duration(least), s)
		case most > 0 && v > most:
			d.hinted(n, key, why, "must be at most %s, not %s", model.Duration(most), s)
		default:
			return v, true
		}
		return 0, false
	}
}

// integer reads a whole number between least and most.
func integer(least, most int64) reader {
	return func(d *decoder, key string, n *yaml.Node) (any, bool) {
		s, ok := scalar(d, key, n)
		if !ok {
			return 0, false
		}
		var v int64
		if n.ShortTag() != "!!int" || n.Decode(&v) != nil {
			d.problem(n, key, "%q is not a whole number%s", clip(s), unquote(n))
			return 0, false
		}
		if v < least || v > most {
			d.problem(n, key, "must be from %d to %d, not %d", least, most, v)
			return 0, false
		}
		return v, true
	}
}

// number reads a finite number between least and most.
func number(least, most float64) func(*decoder, string, *yaml.Node) (float64, bool) {
	return func(d *decoder, key string, n *yaml.Node) (float64, bool) {
		s, ok := scalar(d, key, n)
		if !ok {
			return 0, false
		}
		var v float64
		if tag := n.ShortTag(); (tag != "!!int" && tag != "!!float") || n.Decode(&v) != nil {
			d.problem(n, key, "%q is not a number%s", clip(s), unquote(n))
			return 0, false
		}
		if math.IsNaN(v) || v < least || v > most {
			d.problem(n, key, "must be from %v to %v, not %s", least, most, s)
			return 0, false
		}
		return v, true
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
func percent(d *decoder, key string, n *yaml.Node) (float64, bool) {
	if n.Kind == yaml.ScalarNode && strings.HasSuffix(n.Value, "%") {
		d.hinted(n, key, fmt.Sprintf("did you mean %s?", clip(strings.TrimSpace(strings.TrimSuffix(n.Value, "%")))), "must be a number, without the per cent sign")
		return 0, false
	}
	v, ok := number(math.Inf(-1), math.Inf(1))(d, key, n)
	if ok && (v <= 0 || v >= 100) {
		d.problem(n, key, "must be above 0 and below 100 (per cent), not %s", clip(n.Value))
		return 0, false
	}
	return shift(v, -2), ok
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
func names(read func(*decoder, string, *yaml.Node) (string, bool)) reader {
	return func(d *decoder, key string, n *yaml.Node) (any, bool) {
		if n.Kind != yaml.SequenceNode {
			d.hinted(n, key, listHint(n), "must be a list, not %s", article(n))
			return nil, false
		}
		var list []string
		seen := make(map[string]bool)
		for i, item := range n.Content {
			at := itemKey(key, i)
			d.nodes[at] = item
			s, ok := read(d, at, item)
			if ok && seen[s] {
				d.problem(item, at, "%q stands in the list already", clip(s))
				s = ""
			}
			seen[s] = seen[s] || ok
			list = append(list, s)
		}
		return list, true
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
func labels(d *decoder, key string, n *yaml.Node) (map[string]string, bool) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, key, "must be a mapping of label names to values, not %s", article(n))
		return nil, false
	}
	out := make(map[string]string)
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		if d.repeated(key, name, first) {
			continue
		}
		at := join(key, name.Value)
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
		if s, ok := scalar(d, at, child); ok {
			if len(s) > maxName {
				d.problem(child, at, "a label value must have at most %d bytes, not %d: every series of the target repeats it", maxName, len(s))
			}
			out[name.Value] = s
		}
	}
	if len(out) > maxLabels {
		d.problem(n, key, "must be at most %d labels, not %d: every series of the target repeats them", maxLabels, len(out))
	}
	return out, true
}

// body reads fields of a JSON object.
func body(d *decoder, key string, n *yaml.Node) (map[string]any, bool) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, key, "must be a mapping of request fields to values, not %s", article(n))
		return nil, false
	}
	v, ok := jsonValue(d, key, n)
	out, _ := v.(map[string]any) // nil if not ok
	for i := 0; i+1 < len(n.Content); i += 2 {
		if name := n.Content[i]; slices.Contains(OwnedFields(), name.Value) {
			d.hinted(name, join(key, name.Value), ownedHint(name.Value), "the prober sets this field itself")
			ok = false
		}
	}
	return out, ok
}

// ownedHint names the key that sets an owned field of the request.
func ownedHint(field string) string {
	return map[string]string{
		"model":                 "write model in the target",
		"seed":                  "write seed in the workload",
		"temperature":           "write temperature in the workload",
		"max_tokens":            "write output_tokens in the workload",
		"max_completion_tokens": "write output_tokens in the workload",
		"min_tokens":            "write output_tokens in the workload",
	}[field]
}

// jsonValue returns what a JSON encoder takes for n.
func jsonValue(d *decoder, key string, n *yaml.Node) (any, bool) {
	switch n.Kind {
	case yaml.MappingNode:
		return jsonObject(d, key, n)
	case yaml.SequenceNode:
		list, ok := make([]any, 0, len(n.Content)), true
		for i, item := range n.Content {
			v, fine := jsonValue(d, itemKey(key, i), item)
			list, ok = append(list, v), ok && fine
		}
		return list, ok
	}
	return jsonScalar(d, key, n)
}

func jsonObject(d *decoder, key string, n *yaml.Node) (any, bool) {
	object, ok := make(map[string]any), true
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		if d.repeated(key, name, first) {
			ok = false
			continue
		}
		v, fine := jsonValue(d, join(key, name.Value), child)
		object[name.Value], ok = v, ok && fine
	}
	return object, ok
}

func jsonScalar(d *decoder, key string, n *yaml.Node) (any, bool) {
	if d.ambiguous(n, key) {
		return nil, false
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value, true
	case "!!null":
		return nil, true
	case "!!bool":
		var v bool
		if n.Decode(&v) == nil {
			return v, true
		}
	case "!!int":
		var signed int64
		if n.Decode(&signed) == nil {
			return signed, true
		}
		var unsigned uint64
		if n.Decode(&unsigned) == nil {
			return unsigned, true
		}
	case "!!float":
		var v float64
		if n.Decode(&v) == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, true
		}
	}
	d.problem(n, key, "has a value that JSON cannot express")
	return nil, false
}

// fileNames are safe on every file system and need no quotes.
var fileNames = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

const fileNameRule = "becomes the name of a folder: at most 100 letters, digits, dots, dashes and underscores, not beginning with a dot or dash"

// fileName reads a name that becomes part of the name of a folder.
func fileName(d *decoder, key string, n *yaml.Node) (string, bool) {
	s, ok := scalar(d, key, n)
	if ok && !fileNames.MatchString(s) {
		d.problem(n, key, "%s", fileNameRule)
		return "", false
	}
	return s, ok
}

func rate(d *decoder, key string, n *yaml.Node) (float64, bool) {
	v, ok := number(0, maxRate)(d, key, n)
	if ok && v == 0 {
		d.problem(n, key, "must be above 0")
		return 0, false
	}
	return v, ok
}

// objective reads a bound on a latency; those who run the plan say which there are.
func objective(d *decoder, key string, n *yaml.Node) (string, bool) {
	s, ok := scalar(d, key, n)
	if !ok || d.rules.Objective == nil {
		return s, ok
	}
	if err := d.rules.Objective(s); err != nil {
		d.problem(n, key, "%s", err)
		return "", false
	}
	return s, true
}
