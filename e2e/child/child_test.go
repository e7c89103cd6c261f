//go:build linux

package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The test's own program plays the roles.
func TestMain(m *testing.M) {
	played, err := Played(os.Args[1:], map[string]Role{"double": double, "refuse": refuse})
	if !played {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// double says on which processors it may run, and returns twice its configuration.
func double(config json.RawMessage, ready func(string)) (any, error) {
	var n int
	if err := json.Unmarshal(config, &n); err != nil {
		return nil, err
	}
	var on unix.CPUSet
	if err := unix.SchedGetaffinity(0, &on); err != nil {
		return nil, err
	}
	ready(fmt.Sprintf("%d of processors, 0 is one: %v", on.Count(), on.IsSet(0)))
	return 2 * n, nil
}

func refuse(json.RawMessage, func(string)) (any, error) { return nil, errors.New("no") }

func TestChild(t *testing.T) {
	c, err := Start("double", ServerCPU, 21)
	if err != nil {
		t.Fatal(err)
	}
	if want := "1 of processors, 0 is one: true"; c.Said != want {
		t.Errorf("it said %q, want %q", c.Said, want)
	}
	var result int
	if err := c.Finish(&result); err != nil || result != 42 {
		t.Errorf("its result is %d, %v, want 42", result, err)
	}
}

func TestChildThatDoesNotStart(t *testing.T) {
	for _, role := range []string{"refuse", "unknown"} {
		if _, err := Start(role, ServerCPU, 0); err == nil || !strings.Contains(err.Error(), role+" did not start") {
			t.Errorf("%s: %v", role, err)
		}
	}
}
