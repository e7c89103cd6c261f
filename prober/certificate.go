package prober

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"
)

// decidingCert is the certificate that decides when a server's is no longer accepted: that with the earliest end in
// the chain that was verified; of several chains the one that holds longest counts. Without verification it is of the
// chain as the server sent it. Nil: there is no TLS.
func decidingCert(state *tls.ConnectionState) (best *x509.Certificate) {
	if state == nil {
		return nil
	}
	chains := state.VerifiedChains
	if len(chains) == 0 {
		chains = [][]*x509.Certificate{sentChain(state.PeerCertificates)}
	}
	for _, chain := range chains {
		if c := endsFirst(chain); c != nil && (best == nil || c.NotAfter.After(best.NotAfter)) {
			best = c
		}
	}
	return best
}

// expiredCert is the certificate whose end failed a handshake. Nil: it did not fail for its age, and what is known of
// the chain that was verified before stays.
func expiredCert(err error) *x509.Certificate {
	var failed *tls.CertificateVerificationError
	if !errors.As(err, &failed) {
		return nil
	}
	if c := endsFirst(sentChain(failed.UnverifiedCertificates)); c != nil && c.NotAfter.Before(time.Now()) {
		return c
	}
	return nil
}

func endsFirst(chain []*x509.Certificate) (first *x509.Certificate) {
	for _, c := range chain {
		if first == nil || c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	return first
}

// setCert keeps the lifetime of a certificate; none leaves it unknown.
func (r *Result) setCert(c *x509.Certificate) {
	if c != nil {
		r.CertNotBefore, r.CertExpiry = c.NotBefore, c.NotAfter
	}
}

// sentChain is the way from the server's own certificate, which comes first, to the last of its issuers that the
// server sent. What else a server sends, such as the old root of another chain, has no part in it.
func sentChain(sent []*x509.Certificate) []*x509.Certificate {
	if len(sent) == 0 {
		return nil
	}
	chain, rest := sent[:1:1], sent[1:]
	for range rest {
		last := chain[len(chain)-1]
		if bytes.Equal(last.RawIssuer, last.RawSubject) {
			break
		}
		for _, c := range rest {
			if bytes.Equal(c.RawSubject, last.RawIssuer) && last.CheckSignatureFrom(c) == nil {
				chain = append(chain, c)
				break
			}
		}
	}
	return chain
}
