package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/reading-the-curves.md prints what its commands print, one after another in one folder, and shows what they
// draw. Its console blocks are for commands that need no server.
func TestReadingTheCurves(t *testing.T) {
	file, err := filepath.Abs("../../docs/reading-the-curves.md")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	text := string(data)
	blocks := regexp.MustCompile("(?s)```console\n(.*?)\n```").FindAllStringSubmatch(text, -1)
	if len(blocks) == 0 {
		t.Fatal("no console blocks")
	}
	for _, block := range blocks {
		got := replay(t, block[1])
		if *update {
			text = strings.Replace(text, block[1], got, 1)
		} else if d := cmp.Diff(strings.Split(block[1], "\n"), strings.Split(got, "\n")); d != "" {
			t.Errorf("a block is not what its commands print; go test -update writes it anew (-want +got):\n%s", d)
		}
	}
	if text != string(data) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	checkCharts(t, text, filepath.Join(filepath.Dir(file), "images", "curves"))
}

// replay runs the commands of a console block, and returns the block with the lines that they print now.
func replay(t *testing.T, block string) string {
	t.Helper()
	var lines []string
	for _, part := range strings.Split("\n"+block, "\n$ ")[1:] {
		line, shown, _ := strings.Cut(part, "\n")
		args, ours := strings.CutPrefix(line, "probetool ")
		if !ours {
			t.Fatalf("$ %s: not a command of this tool", line)
		}
		var out strings.Builder // what a terminal shows
		run(t.Context(), strings.Fields(args), &out, &out)
		lines = append(lines, "$ "+line)
		lines = append(lines, pick(strings.Split(shown, "\n"), printed(out.String()))...)
	}
	return strings.Join(lines, "\n")
}

// printed splits an output into lines, without blanks at their ends.
func printed(out string) []string {
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// pick returns those lines of an output that a block shows. In the block "..." stands for lines left out: the line
// after it is the first that begins like it, any other line is the next.
func pick(shown, output []string) (lines []string) {
	left := false
	for _, line := range shown {
		if line == "..." {
			lines, left = append(lines, line), true
			continue
		}
		at := 0
		if left {
			at = slices.IndexFunc(output, func(o string) bool { return beginning(o) == beginning(line) })
		}
		if at < 0 || at >= len(output) {
			return append(lines, "no line that begins with: "+line)
		}
		lines, output, left = append(lines, output[at]), output[at+1:], false
	}
	if !left {
		lines = append(lines, output...)
	}
	return lines
}

// beginning is the first cell of a row of a table, or the first two words of a sentence.
func beginning(line string) string {
	cell, _, row := strings.Cut(strings.TrimSpace(line), "  ")
	if words := strings.Fields(cell); !row && len(words) > 2 {
		return strings.Join(words[:2], " ")
	}
	return cell
}

// checkCharts holds the pictures of the text against the charts that its commands have drawn: DIR-NAME.svg is
// DIR/chart-NAME.svg.
func checkCharts(t *testing.T, text, folder string) {
	t.Helper()
	links := map[string]bool{}
	for _, m := range regexp.MustCompile(`\(images/curves/([^)]+)\)`).FindAllStringSubmatch(text, -1) {
		links[m[1]] = true
	}
	charts, err := filepath.Glob("*/chart-*.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, chart := range charts {
		name := strings.Replace(chart, "/chart-", "-", 1)
		if !links[name] {
			continue
		}
		delete(links, name)
		drawn, picture := read(t, chart), filepath.Join(folder, name)
		if *update {
			if err := os.WriteFile(picture, []byte(drawn), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if read(t, picture) != drawn {
			t.Errorf("%s is not what the commands draw; go test -update writes it anew", picture)
		}
	}
	for name := range links {
		t.Errorf("no command draws %s", name)
	}
	kept, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, picture := range kept {
		if !strings.Contains(text, "(images/curves/"+picture.Name()+")") {
			t.Errorf("the text does not show %s", picture.Name())
		}
	}
}
