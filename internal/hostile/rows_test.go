package hostile

import "testing"

// Every server has a name of its own and a kind, and the kinds are few enough to be run one by one.
func TestKinds(t *testing.T) {
	names := make(map[string]bool)
	kinds := make(map[string]bool)
	for _, s := range Servers() {
		if s.Kind == "" || names[s.Name] {
			t.Errorf("%q is of kind %q, or there twice", s.Name, s.Kind)
		}
		names[s.Name], kinds[s.Kind] = true, true
	}
	if each := OneOfEachKind(); len(each) != len(kinds) || len(each) > 25 {
		t.Errorf("%d servers of %d kinds", len(each), len(kinds))
	}
}
