package vllmsim

import "net/http"

func (s *Server) serveTokenize(_ *process, w http.ResponseWriter, r *http.Request) {
	b, fault := readBody(r)
	if fault != nil {
		fault.write(w)
		return
	}
	var (
		model, prompt    string
		messages         []message
		generationPrompt = true
	)
	b.decode("model", &model)
	b.decode("prompt", &prompt)
	b.decode("messages", &messages)
	b.decode("add_generation_prompt", &generationPrompt)
	withText := b.boolean("return_token_strs")
	switch {
	case len(b.problems) > 0:
		b.err().write(w)
		return
	case !s.hasModel(model):
		modelNotFound(model, s.cfg.Models).write(w)
		return
	}
	pieces := tokenize(prompt)
	if b.has("messages") {
		pieces = chatPieces(messages, generationPrompt)
	}
	answer := struct {
		Count       int      `json:"count"`
		MaxModelLen int      `json:"max_model_len"`
		Tokens      []int    `json:"tokens"`
		TokenStrs   []string `json:"token_strs"`
	}{Count: len(pieces), MaxModelLen: s.cfg.MaxModelLen, Tokens: ids(pieces)}
	if withText {
		for _, p := range pieces {
			answer.TokenStrs = append(answer.TokenStrs, p.text)
		}
	}
	writeJSON(w, http.StatusOK, answer)
}
