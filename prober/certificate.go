package prober

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"
)

// certExpiry is when a server's certificate stops to be accepted: the earliest end among the certificates of the
// chain that was verified; of several chains the one that holds longest counts. Without verification it is that of
// the chain as the server sent it. Zero: there is no TLS.
func certExpiry(state *tls.ConnectionState) (best time.Time) {
	if state == nil {
		return best
	}
	chains := state.VerifiedChains
	if len(chains) == 0 {
		chains = [][]*x509.Certificate{sentChain(state.PeerCertificates)}
	}
	for _, chain := range chains {
		if at := earliestEnd(chain); at.After(best) {
			best = at
		}
	}
	return best
}

// expiredAt is when the certificate that failed a handshake ended. Zero: it did not fail for its age, and what is known
// of the chain that was verified before stays.
func expiredAt(err error) time.Time {
	var failed *tls.CertificateVerificationError
	if !errors.As(err, &failed) {
		return time.Time{}
	}
	if at := earliestEnd(sentChain(failed.UnverifiedCertificates)); at.Before(time.Now()) {
		return at
	}
	return time.Time{}
}

func earliestEnd(chain []*x509.Certificate) (at time.Time) {
	for _, c := range chain {
		if at.IsZero() || c.NotAfter.Before(at) {
			at = c.NotAfter
		}
	}
	return at
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
