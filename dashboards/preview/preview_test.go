package main

import (
	"encoding/json"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFormat(t *testing.T) {
	none := 0
	for _, test := range []struct {
		value    float64
		unit     string
		decimals *int
		want     string
	}{
		{0, "s", nil, "0"},
		{0.00035, "s", nil, "350 µs"},
		{0.0483, "s", nil, "48.3 ms"},
		{7, "s", nil, "7 s"},
		{150, "s", nil, "2.5 min"},
		{9000, "s", nil, "2.5 h"},
		{1e6, "s", nil, "11.6 d"},
		{0.995, "percentunit", nil, "99.5%"},
		{149.6, "short", &none, "150"},
		{25 << 20, "bytes", nil, "25 MiB"},
		{118.4, "tok/s", &none, "118 tok/s"},
		{math.NaN(), "s", nil, "no data"},
	} {
		if got := format(test.value, test.unit, test.decimals); got != test.want {
			t.Errorf("%v in %s reads %q, want %q", test.value, test.unit, got, test.want)
		}
	}
}

// TestHistograms: the same observations look the same from native and from classic histograms.
func TestHistograms(t *testing.T) {
	var native, classic []series
	decode(t, `[{"metric": {}, "histograms": [[10, {"count": "5", "sum": "9", "buckets": [[0, "1", "2", "3"], [0, "2", "5", "2"]]}]]}]`, &native)
	decode(t, `[
		{"metric": {"le": "+Inf"}, "values": [[10, "5"]]},
		{"metric": {"le": "5"}, "values": [[10, "5"]]},
		{"metric": {"le": "2"}, "values": [[10, "3"]]},
		{"metric": {"le": "1"}, "values": [[10, "0"]]}
	]`, &classic)
	want := []histogram{{10, []bucket{{1, 2, 3}, {2, 5, 2}}}}
	for name, answer := range map[string][]series{"native": native, "classic": classic} {
		if diff := cmp.Diff(want, histograms(answer), cmp.AllowUnexported(histogram{}, bucket{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

const table = `{
	"panel": {
		"type": "table", "title": "Targets", "gridPos": {"x": 0, "y": 0, "w": 24, "h": 4},
		"targets": [{}, {}],
		"fieldConfig": {"defaults": {"unit": "short"}, "overrides": [{"matcher": {"id": "byName", "options": "State"}, "properties": [
			{"id": "mappings", "value": [
				{"options": {"from": 0, "to": 0.9, "result": {"text": "good", "color": "green"}}},
				{"options": {"from": 4, "to": 4.9, "result": {"text": "down", "color": "red"}}}]},
			{"id": "thresholds", "value": {"steps": [{"value": null, "color": "green"}, {"value": 3, "color": "red"}]}},
			{"id": "custom.cellOptions", "value": {"type": "color-background"}}]}]},
		"transformations": [{"id": "merge", "options": {}}, {"id": "organize", "options": {
			"indexByName": {"target": 0, "Value #A": 1, "Value #B": 2},
			"renameByName": {"target": "Target", "Value #A": "State", "Value #B": "Waiting"}}}],
		"options": {"sortBy": [{"displayName": "State", "desc": true}]}
	},
	"answers": [
		[{"metric": {"target": "a"}, "values": [[10, "0.2"]]}, {"metric": {"target": "b"}, "values": [[10, "4.1"]]}],
		[{"metric": {"target": "a"}, "values": [[10, "7"]]}]
	]
}`

// TestTable: answers are joined by their labels, and the worst is on top.
func TestTable(t *testing.T) {
	var p panel
	decode(t, table, &p)
	var got [][]string
	for _, r := range p.rows(p.columns()) {
		var texts []string
		for _, c := range r.cells {
			texts = append(texts, c.text)
		}
		got = append(got, texts)
	}
	want := [][]string{{"b", "down", ""}, {"a", "good", "7"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

const chart = `{
	"panel": {
		"type": "timeseries", "title": "TTFT", "gridPos": {"x": 0, "y": 4, "w": 24, "h": 8},
		"targets": [{"legendFormat": "p50 · {{target}}"}],
		"fieldConfig": {"defaults": {"unit": "s"}, "overrides": [{"matcher": {"id": "byRegexp", "options": "/^p50/"}, "properties": [
			{"id": "color", "value": {"mode": "fixed", "fixedColor": "#FF0000"}},
			{"id": "custom.lineStyle", "value": {"fill": "dash"}}]}]}
	},
	"answers": [[{"metric": {"target": "a"}, "values": [[0, "1"], [60, "2"], [120, "1"]]}]]
}`

func TestStyle(t *testing.T) {
	var p panel
	decode(t, chart, &p)
	want := []line{{"p50 · a", style{color: "#FF0000", dashed: true}, []point{{0, 1}, {60, 2}, {120, 1}}}}
	if diff := cmp.Diff(want, p.allLines(), cmp.AllowUnexported(line{}, style{}, point{})); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// TestPicture: a line is where it belongs, in its colour, and the picture is as large as the grid.
func TestPicture(t *testing.T) {
	r := recording{From: 0, To: 120, Title: "Target"}
	r.Panels = []*panel{{}, {}}
	decode(t, table, r.Panels[0])
	decode(t, chart, r.Panels[1])
	path := filepath.Join(t.TempDir(), "preview.png")
	if err := r.draw(path, 600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 600 || b.Dy() < 12*29 || b.Dy() > 12*29+50 {
		t.Errorf("the picture has %v", b)
	}
	red, highest := 0, img.Bounds().Max.Y
	for y := range img.Bounds().Max.Y {
		for x := range img.Bounds().Max.X {
			if (color.RGBAModel.Convert(img.At(x, y)) == color.RGBA{255, 0, 0, 255}) {
				red, highest = red+1, min(highest, y)
			}
		}
	}
	if red < 20 || highest < 34+4*29 {
		t.Errorf("%d red points, the highest at %d: the line is not in its panel", red, highest)
	}
}

func TestChoose(t *testing.T) {
	var r recording
	for _, text := range []string{table, chart} {
		p := &panel{}
		decode(t, text, p)
		r.Panels = append(r.Panels, p)
	}
	if err := r.choose([]string{"TTFT"}); err != nil {
		t.Fatal(err)
	}
	if at := r.Panels[0].Panel.GridPos; len(r.Panels) != 1 || at.Y != 0 {
		t.Errorf("chosen are %d panels, the first at %+v", len(r.Panels), at)
	}
	if err := r.choose([]string{"none"}); err == nil {
		t.Error("a panel that is not there was chosen")
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
