package figures

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInsert(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.md")
	const document = "a\n<!-- compare:clients -->\nold\n<!-- end -->\nb\n<!-- compare:vllm -->\n<!-- end -->\n"
	if err := os.WriteFile(file, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Insert(file, "compare:clients", "\nnew\n\n"); err != nil {
		t.Fatal(err)
	}
	if err := Insert(file, "compare:vllm", "table\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const want = "a\n<!-- compare:clients -->\nnew\n<!-- end -->\nb\n<!-- compare:vllm -->\ntable\n<!-- end -->\n"
	if string(got) != want {
		t.Errorf("the document is\n%s\nwant\n%s", got, want)
	}
	if err := Insert(file, "compare:nothing", "x"); err == nil {
		t.Error("a document without the marker was changed")
	}
}

func TestQuantileIsByNearestRank(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Quantile(hundred, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
