package analyze

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// A run that was stored before the form had a version, in lines of both earlier forms, has the figures that the program
// of then made of it.
func TestFiguresOfAnUnversionedRun(t *testing.T) {
	run, err := experiment.Open("testdata/unversioned")
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	summary := Summarize(run)
	if !run.Left.None() {
		t.Errorf("left out: %v", run.Left)
	}
	var got bytes.Buffer
	if err := experiment.WriteCSV(&got, &summary); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/unversioned/summary.csv")
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := csv.NewReader(bytes.NewReader(want)).ReadAll()
	b, err2 := csv.NewReader(&got).ReadAll()
	if err1 != nil || err2 != nil || len(a) != len(b) || len(a[0]) != len(b[0]) {
		t.Fatalf("%v, %v: other rows or columns", err1, err2)
	}
	for i := range a {
		for j, then := range a[i] {
			x, notNumber := strconv.ParseFloat(then, 64)
			y, _ := strconv.ParseFloat(b[i][j], 64)
			if then != b[i][j] && (notNumber != nil || math.Abs(x-y) > 1e-6*math.Abs(x)) {
				t.Errorf("%s is %s, was %s", a[0][j], b[i][j], then)
			}
		}
	}
}
