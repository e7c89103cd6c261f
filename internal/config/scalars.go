package config

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Plain scalars that mean one thing in YAML 1.1 and another in YAML 1.2. In a value of a known kind the kind decides; in
// free-form JSON a reader of the file cannot know what is sent.
var (
	// oldBool are the other words for true and false of YAML 1.1 (yaml.org/type/bool.html).
	oldBool = regexp.MustCompile(`^(?:(y|Y|yes|Yes|YES|on|On|ON)|n|N|no|No|NO|off|Off|OFF)$`)
	// base60 are numbers of YAML 1.1 (yaml.org/type/int.html and float.html) and text in YAML 1.2, such as 1:30.
	base60 = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)
	// sameNumber are the numbers that both read alike, JSON's among them: no octal, no binary, no underscores.
	sameNumber = regexp.MustCompile(`^([-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?|0x[0-9a-fA-F]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// ambiguous reports a plain scalar that is read in two ways, and what to write.
func (d *decoder) ambiguous(n *yaml.Node, key string) bool {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	if d.flags[n] != "" && n.Line == 0 || n.Style&quoted != 0 {
		return false
	}
	switch tag := n.ShortTag(); {
	case tag == "!!str" && oldBool.MatchString(n.Value):
		meant := "false"
		if oldBool.FindStringSubmatch(n.Value)[1] != "" {
			meant = "true"
		}
		d.hinted(n, key, fmt.Sprintf("write %s, or %q in quotes for the text", meant, n.Value), "is %s in YAML 1.1 and text in YAML 1.2", meant)
	case tag == "!!str" && base60.MatchString(n.Value):
		d.hinted(n, key, "put it in quotes for the text, or write the number in decimal", "is a number in base 60 in YAML 1.1 and text in YAML 1.2")
	case tag == "!!timestamp":
		d.hinted(n, key, "put it in quotes for the text", "is a date in YAML 1.1 and text in YAML 1.2")
	case (tag == "!!int" || tag == "!!float") && !sameNumber.MatchString(n.Value):
		d.hinted(n, key, "write the number in decimal, or put it in quotes for the text", "is read as different numbers, or as text, by YAML 1.1 and 1.2")
	default:
		return false
	}
	return true
}

// placeholder is what other programs replace in their configurations: $VAR, ${VAR}, $(command), {{ template }}.
var placeholder = regexp.MustCompile(`\$\{[^}]*\}|\$\([^)]*\)|\{\{.*\}\}|<%.*%>|^\$[A-Za-z_][A-Za-z0-9_]*$`)

// placeholders points out values that were probably meant to be replaced. Their text is not repeated. In extra_body
// braces are those of a chat template.
func (d *decoder) placeholders(root *yaml.Node) {
	each(root, "", func(key string, _, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			return
		}
		if found := placeholder.FindString(n.Value); strings.HasPrefix(found, "$") || found != "" && !strings.Contains(key, "extra_body") {
			d.doubt(n, key, "is taken as it stands: no variable, command or template is replaced in this file; a secret goes into a file that credentials_file, password_file or files of a header name")
		}
	})
}
