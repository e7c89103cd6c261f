package chart

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed chart.css
var ChartCSS string

// colour is a colour of the palette, for light and dark surroundings. The status page has the same, so that a latency
// looks the same in both.
type colour struct{ name, light, dark string }

func palette() []colour {
	return []colour{
		{"page", "#f3f4f6", "#0f1216"},
		{"card", "#ffffff", "#181c22"},
		{"line", "#dfe2e7", "#2b313a"},
		{"grid", "#e6e9ed", "#272d36"},
		{"text", "#16191d", "#e7eaee"},
		{"dim", "#5f6873", "#9aa4b0"},
		{"link", "#1558b0", "#7db4f5"},
		{"code", "#eef0f3", "#222831"},
		{"red", "#c62f2f", "#ff8080"},
		{"redbg", "#fdecec", "#3a1a1c"},
		{"amber", "#9a5b00", "#f5b94c"},
		{"amberbg", "#fff3dc", "#3a2b10"},
		{"green", "#23783f", "#6fd08c"},
		{"greenbg", "#e4f5ea", "#14301f"},
		{"grey", "#5f6873", "#9aa4b0"},
		{"greybg", "#eceef1", "#272d36"},
		// Latencies: p50, p95 and p99 are three depths of one hue.
		{"ttft1", "#1b4f96", "#9cc4f8"},
		{"ttft2", "#3b7dd8", "#5b97ea"},
		{"ttft3", "#86b0ea", "#3868ab"},
		{"itl1", "#0f625b", "#7fded4"},
		{"itl2", "#1f9a8f", "#35b5a9"},
		{"itl3", "#7cc8c1", "#23736c"},
		{"duration1", "#7a4a08", "#f6c888"},
		{"duration2", "#d07c14", "#f0a03c"},
		{"duration3", "#ecb873", "#96632a"},
		{"rate1", "#6b42b5", "#b99bf0"},
		{"rate2", "#a98ad9", "#7a5cb0"},
		{"running", "#3b7dd8", "#5b97ea"},
		{"waiting", "#e08a1e", "#f0a03c"},
		{"arrivals", "#8d98a5", "#78838f"},
		{"failed", "#d03b3b", "#ff7070"},
		// The status page: states, and the parts of a request.
		{"blue", "#1558b0", "#7db4f5"},
		{"bluebg", "#e5effb", "#17283d"},
		{"queue", "#e08a1e", "#f0a03c"},
		{"prefill", "#3b7dd8", "#5b97ea"},
		{"outside", "#8a63c9", "#a583e0"},
		{"decode", "#1f9a8f", "#35b5a9"},
		{"decode95", "#a6ddd7", "#1d5a55"},
		{"connect", "#8d98a5", "#78838f"},
		{"fail", "#f6c6c6", "#5c2528"},
		{"usual", "#16191d", "#e7eaee"},
		{"wait", "#d96a6a", "#c75c5c"},
		// Lines that have no order: the shapes of a grid, and the two runs of a comparison.
		{"c1", "#3b7dd8", "#5b97ea"},
		{"c2", "#e08a1e", "#f0a03c"},
		{"c3", "#1f9a8f", "#35b5a9"},
		{"c4", "#8a63c9", "#a583e0"},
		{"c5", "#b8456b", "#e07a9b"},
		{"c6", "#6d7a2a", "#b3c25c"},
	}
}

// PageColours is the palette as variables of a page. Paper is light.
func PageColours() string {
	var light, dark strings.Builder
	for _, c := range palette() {
		fmt.Fprintf(&light, "--%s:%s;", c.name, c.light)
		fmt.Fprintf(&dark, "--%s:%s;", c.name, c.dark)
	}
	return fmt.Sprintf(":root{color-scheme:light dark;%s}\n@media screen and (prefers-color-scheme: dark){:root{%s}}\n", &light, &dark)
}

// fileCSS is the style of a chart in a file of its own. Many programs that show SVG know no variables, so it has
// the colours themselves.
func fileCSS() string {
	var light, dark []string
	for _, c := range palette() {
		name := "var(--" + c.name + ")"
		light, dark = append(light, name, c.light), append(dark, name, c.dark)
	}
	return fmt.Sprintf("%s@media screen and (prefers-color-scheme: dark){\n%s}\n",
		strings.NewReplacer(light...).Replace(ChartCSS), strings.NewReplacer(dark...).Replace(coloured(ChartCSS)))
}

// coloured is the rules of a style sheet that name a colour, a rule a line.
func coloured(css string) string {
	var b strings.Builder
	for rule := range strings.Lines(css) {
		if strings.Contains(rule, "var(") {
			b.WriteString(rule)
		}
	}
	return b.String()
}
