package wire_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/relay"
	"github.com/llm-prober/llm_prober/prober"
)

// The reference lists the engines that the relay knows, all of which the configuration accepts.
func TestEngines(t *testing.T) {
	var known []string
	for _, e := range relay.Engines() {
		known = append(known, string(e))
	}
	last := len(known) - 1
	list := "* `<engine>`: `" + strings.Join(known[:last], "`, `") + "` or `" + known[last] + "`\n"
	if !strings.Contains(read(t, "docs/configuration.md"), list) {
		t.Errorf("docs/configuration.md lacks %s", list)
	}
}

// Every number of reasons, doubts, alerts, metrics, dashboards, runbooks and engines in the README and in docs is that
// of what there is.
func TestFigures(t *testing.T) {
	counts := map[string]int{
		"reasons":    len(prober.Reasons()),
		"doubts":     len(prober.SuspectNames()),
		"alerts":     distinct(t, "alerts/llm_prober_alerts.yml", `(?m)^ *- alert: (\w+)$`),
		"metrics":    distinct(t, "docs/metrics.md", "(?m)^\\| `(llm_[a-z_]+)` \\|"),
		"dashboards": files(t, "dashboards/*.json"),
		"runbooks":   files(t, "docs/runbooks/LLM*.md"),
		"engines":    len(relay.Engines()) - 1, // without auto
	}
	for what, n := range counts {
		if n == 0 {
			t.Fatalf("no %s found", what)
		}
	}
	const words = `one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty`
	// "19 reasons", "Four [Grafana dashboards]", "twenty-one alerts"
	figure := regexp.MustCompile(`(?i)\b([0-9]+|(?:` + words + `)(?:-(?:` + words + `))?) \[?(?:grafana |relayed |prometheus )?(reasons|doubts|alerts|metrics|dashboards|runbooks|engines)\b`)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	measured := regexp.MustCompile(`(?s)<!-- bench:.*?<!-- end -->`)
	inReadme := make(map[string]bool)
	for _, page := range append(pages, "../../README.md") {
		text := measured.ReplaceAllString(read(t, strings.TrimPrefix(page, "../../")), "")
		for _, m := range figure.FindAllStringSubmatch(text, -1) {
			if n := number(m[1], strings.Split(words, "|")); n != counts[m[2]] {
				t.Errorf("%s says %q; there are %d", page, m[0], counts[m[2]])
			}
			inReadme[m[2]] = inReadme[m[2]] || strings.HasSuffix(page, "README.md")
		}
	}
	for _, what := range []string{"reasons", "alerts", "dashboards"} {
		if !inReadme[what] {
			t.Errorf("the README does not say how many %s there are, or in a form that is not read here", what)
		}
	}
}

// number reads digits or words, of which those up to twenty come one by one and then by tens.
func number(text string, words []string) (n int) {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	for _, word := range strings.Split(strings.ToLower(text), "-") {
		if i := slices.Index(words, word); i < 20 {
			n += i + 1
		} else {
			n += 10 * (i - 17)
		}
	}
	return n
}

// Every reason of a failure has one row, in the runbook of outages or in that of refusals; the rules count those of the
// latter as refusals.
func TestReasonsInRunbooks(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\|")
	reasons := func(runbook string) (list []string) {
		for _, row := range rows.FindAllStringSubmatch(read(t, "docs/runbooks/"+runbook+".md"), -1) {
			for reason := range strings.SplitSeq(row[1], ", ") {
				list = append(list, strings.Trim(reason, "`"))
			}
		}
		slices.Sort(list)
		return list
	}
	refusals := reasons("LLMServerRefuses")
	told := slices.Concat(reasons("LLMServerOutage"), refusals)
	var want []string
	for _, reason := range prober.Reasons() {
		want = append(want, string(reason))
	}
	slices.Sort(told)
	slices.Sort(want)
	if d := cmp.Diff(want, told); d != "" {
		t.Errorf("reasons in the runbooks (-code +runbooks):\n%s", d)
	}
	if rule := `reason=~"` + strings.Join(refusals, "|") + `"`; !strings.Contains(read(t, "alerts/llm_prober_records.yml"), rule) {
		t.Errorf("alerts/llm_prober_records.yml lacks %s", rule)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// distinct counts what the first group of a pattern finds in a file, repetitions once.
func distinct(t *testing.T, name, pattern string) int {
	t.Helper()
	found := make(map[string]bool)
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, name), -1) {
		found[m[1]] = true
	}
	return len(found)
}

func files(t *testing.T, pattern string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}
