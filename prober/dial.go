package prober

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialSlot is what the dial of a connection and the exchange that asked for it know of each other. It travels in the
// context, since the layers between them (go-conntrack, TLS, net/http) hide the connections that they wrap.
type dialSlot struct {
	asker    context.Context // of whoever wants the answer: it ends at the deadline
	work     context.Context // of the request: it ends once what came before the deadline has been read
	deadline time.Time       // of asker; zero: none
	conn     atomic.Pointer[stampedConn]
	released atomic.Bool // whoever read the answer has closed it
	sent     func(time.Time)
	watch    *Watch // for the connection; nil: none
}

type dialSlotKey struct{}

// over reports whether a moment is after the deadline.
func (s *dialSlot) over(at time.Time) bool {
	return s != nil && !s.deadline.IsZero() && at.After(s.deadline)
}

// withDeadline gives a context the deadline.
func (s *dialSlot) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, s.deadline)
}

// cause is why the asker's context has ended, to be asked once its deadline has passed.
func (s *dialSlot) cause() error {
	<-s.asker.Done() // its timer may be a moment behind
	return context.Cause(s.asker)
}

// Dial makes dial use addresses of the family only.
func (f IPFamily) Dial(dial DialFunc) DialFunc {
	suffix := map[IPFamily]string{IPv4: "4", IPv6: "6"}[f]
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network+suffix, address)
	}
}

// stamped makes dial wrap its connections for the exchange in whose context it is called. The connection ends with the
// exchange: net/http lets a dial go on after its request was given up, for a later request, and does not close a
// connection that was switched to another protocol. The dial gets the deadline, which net/http keeps from it, so that
// each address of a name has its share of the time ([net.Dialer]).
func stamped(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		slot, ok := ctx.Value(dialSlotKey{}).(*dialSlot)
		if !ok {
			return dial(ctx, network, address) // for a token: nobody measures it
		}
		ctx, cancel := slot.withDeadline(ctx)
		defer cancel()
		defer context.AfterFunc(slot.work, cancel)()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := newStampedConn(conn, slot.sent)
		c.slot = slot
		if slot.watch != nil {
			c.wakes, c.unwatch = slot.watch.add(c.kernel)
		}
		slot.conn.Store(c)
		context.AfterFunc(slot.work, func() {
			if !slot.released.Load() { // else net/http closes it, in its own order
				c.Close()
			}
		})
		if slot.work.Err() != nil { // nobody may be left to close it
			c.Close()
			return nil, slot.work.Err()
		}
		return c, nil
	}
}
