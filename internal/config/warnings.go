package config

// Warnings returns what is legal but probably not what was meant, one line each, with its place in the file
// where it has one. Files that the configuration names are looked at now, because they may come and go
// while it holds.
func (c *Config) Warnings() []string {
	var out []string
	for _, p := range c.doubts {
		out = append(out, p.String())
	}
	for _, p := range c.fileDoubts() {
		out = append(out, p.String())
	}
	return out
}
