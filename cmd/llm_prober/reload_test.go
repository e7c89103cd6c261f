package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// configMap is a folder as the kubelet fills it: config.yml is a link through ..data into a folder of one version, and
// a new version is a new folder to which ..data is swapped in one step. An empty text: the file is not there.
type configMap struct {
	t       *testing.T
	dir     string
	version string
}

func newConfigMap(t *testing.T, yaml string) *configMap {
	m := &configMap{t: t, dir: t.TempDir()}
	m.must(os.Symlink(filepath.Join("..data", "config.yml"), m.path()))
	m.swap(yaml)
	return m
}

func (m *configMap) path() string { return filepath.Join(m.dir, "config.yml") }

func (m *configMap) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *configMap) swap(yaml string) {
	m.t.Helper()
	version, err := os.MkdirTemp(m.dir, "..version-")
	m.must(err)
	if yaml != "" {
		file := filepath.Join(version, "config.yml")
		m.must(os.WriteFile(file, []byte(yaml), 0o600))
		m.must(os.Chtimes(file, time.Unix(1e9, 0), time.Unix(1e9, 0))) // times tell nothing
	}
	m.must(os.Symlink(filepath.Base(version), filepath.Join(m.dir, "..data_tmp")))
	m.must(os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	if m.version != "" {
		m.must(os.RemoveAll(m.version))
	}
	m.version = version
}

// What is looked at every 30 s is the content, whatever became of the file; what is found is told once.
func TestAutoReload(t *testing.T) {
	const (
		ok     = "llm_prober_config_last_reload_successful"
		loaded = "llm_prober_config_last_reload_success_timestamp_seconds"
	)
	one := twoTargets
	two := strings.Replace(twoTargets, "name: a,", "name: c,", 1)
	bad := strings.Replace(twoTargets, "name: a,", "nome: a,", 1)
	for _, c := range []struct {
		name   string
		change func(m *configMap, hup chan<- os.Signal)
		target string // whose series are there afterwards
		ok     float64
		said   []string // all that the log says in five intervals, by its beginning
	}{
		{
			name: "nothing", target: "a", ok: 1,
			change: func(*configMap, chan<- os.Signal) {},
		},
		{
			name: "the same content in a new version", target: "a", ok: 1,
			change: func(m *configMap, _ chan<- os.Signal) { m.swap(one) },
		},
		{
			name: "the same content, touched", target: "a", ok: 1,
			change: func(m *configMap, _ chan<- os.Signal) { m.must(os.Chtimes(m.path(), time.Now(), time.Now())) },
		},
		{
			name: "another content of the same length and time in a new version", target: "c", ok: 1,
			change: func(m *configMap, _ chan<- os.Signal) { m.swap(two) },
			said:   []string{`level=info msg="configuration reloaded"`},
		},
		{
			name: "written in place", target: "c", ok: 1,
			change: func(m *configMap, _ chan<- os.Signal) { m.must(os.WriteFile(m.path(), []byte(two), 0o600)) },
			said:   []string{`level=info msg="configuration reloaded"`},
		},
		{
			name: "a bad content", target: "a", ok: 0,
			change: func(m *configMap, _ chan<- os.Signal) { m.swap(bad) },
			said:   []string{`level=error msg="reloading the configuration failed, the one before stays in force" err="` + "FILE:5: targets[0].nome: unknown key"},
		},
		{
			name: "no file", target: "a", ok: 0,
			change: func(m *configMap, _ chan<- os.Signal) { m.swap("") },
			said:   []string{`level=error msg="reloading the configuration failed, the one before stays in force" err="reading the configuration: open FILE: no such file`},
		},
		{
			name: "a bad content, then the first one again", target: "a", ok: 1,
			change: func(m *configMap, _ chan<- os.Signal) {
				m.swap(bad)
				time.Sleep(30 * time.Second)
				m.swap(one)
			},
			said: []string{`level=error msg="reloading the configuration failed`, `level=info msg="configuration reloaded"`},
		},
		{
			name: "changed and undone between two looks", target: "a", ok: 1,
			change: func(m *configMap, _ chan<- os.Signal) {
				m.swap(two)
				m.swap(one)
			},
		},
		{
			name: "another content that SIGHUP has told of", target: "c", ok: 1,
			change: func(m *configMap, hup chan<- os.Signal) {
				m.swap(two)
				hup <- syscall.SIGHUP
			},
			said: []string{`level=info msg="configuration reloaded"`},
		},
		{
			name: "a bad content that SIGHUP has told of", target: "a", ok: 0,
			change: func(m *configMap, hup chan<- os.Signal) {
				m.swap(bad)
				hup <- syscall.SIGHUP
			},
			said: []string{`level=error msg="reloading the configuration failed`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newConfigMap(t, one)
				hup := make(chan os.Signal)
				g := startAutoReload(t, m.path(), 30*time.Second, hup)
				time.Sleep(70 * time.Second) // between two looks
				before := g.scrape()

				c.change(m, hup)
				time.Sleep(150 * time.Second)
				after := g.scrape()
				after.want(t, ok, c.ok)
				if len(after.of(`target="`+c.target+`"`)) == 0 {
					t.Errorf("no series of target %s", c.target)
				}
				if moved := after[loaded] != before[loaded]; moved != (c.ok == 1 && c.said != nil) {
					t.Errorf("the time of the last good load moved: %t", moved)
				}
				var said []string
				for line := range strings.Lines(g.log.String()) {
					if strings.Contains(line, "configuration") {
						said = append(said, strings.ReplaceAll(line, m.path(), "FILE"))
					}
				}
				if len(said) != len(c.said) {
					t.Fatalf("the log says %q, want %q", said, c.said)
				}
				for i, line := range said {
					if !strings.HasPrefix(line, c.said[i]) {
						t.Errorf("the log says %q, want %q", line, c.said[i])
					}
				}
			})
		})
	}
}

// Without an interval only a signal reloads.
func TestNoAutoReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newConfigMap(t, twoTargets)
		hup := make(chan os.Signal)
		g := startAutoReload(t, m.path(), 0, hup)
		m.swap("targets: []\n")
		time.Sleep(time.Hour)
		if strings.Contains(g.log.String(), "configuration") || len(g.scrape().of(`target="a"`)) == 0 {
			t.Errorf("the file was taken over, with the log %s", g.log)
		}
		hup <- syscall.SIGHUP
		synctest.Wait()
		if series := g.scrape().of(`target="a"`); len(series) != 0 {
			t.Errorf("after SIGHUP there are %q", series)
		}
	})
}

// startAutoReload runs a daemon with a configuration file, for targets that refuse connections, until the end of the
// test.
func startAutoReload(t *testing.T, path string, interval time.Duration, hup <-chan os.Signal) *rig {
	t.Helper()
	load, changed := (&flags{configFile: path}).loader()
	g := &rig{t: t, log: &lockedBuffer{}}
	g.start(&network{}, load)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	go keepReloading(hup, interval, changed, func() { _ = g.reload() }, ended)
	return g
}
