package access

import (
	"context"
	"errors"
	"slices"

	"reckon/figure"
	"reckon/figure/wire"
)

// Usage sums up usage.
type Usage interface {
	Usage(ctx context.Context, q wire.UsageQuery) (wire.UsageList, error)
}

// AuthorizedUsage filters usage by the rights of the viewer. A user sees their own name, and the use of all other users
// in one row. The public sees no names.
type AuthorizedUsage struct{ backend Usage }

// AuthorizeUsage wraps a Usage.
func AuthorizeUsage(u Usage) AuthorizedUsage { return AuthorizedUsage{u} }

// othersRow is the row with the work of all other owners in answers to users.
const othersRow = "others"

// Usage implements [Usage].
func (a AuthorizedUsage) Usage(ctx context.Context, q wire.UsageQuery) (wire.UsageList, error) {
	v := From(ctx)
	byOwner := slices.Contains(q.By, "owner")
	names := slices.Contains(q.By, "account") || slices.Contains(q.By, "command") || len(q.Owners)+len(q.Accounts) > 0 || q.Command != ""
	switch {
	case v.All():
		return a.backend.Usage(ctx, q)
	case v.Role == User && names:
		if q.Owners = v.OwnAmong(q.Owners); len(q.Owners) == 0 {
			return wire.UsageList{Since: q.Since, Until: q.Until, Span: q.Span, By: q.By}, nil
		}
		return a.backend.Usage(ctx, q)
	case v.Role == User:
		list, err := a.backend.Usage(ctx, q)
		if byOwner {
			list.Rows = foldOthers(v, list.Rows)
		}
		return list, err
	case v.Role == Public && (names || byOwner):
		return wire.UsageList{}, Refuse(ErrForbidden, "sign in, or group by kind, partition, node or site",
			errors.New("usage is shown to the public without names"))
	case v.Role == Public:
		return a.backend.Usage(ctx, q)
	}
	return wire.UsageList{}, v.Unknown()
}

// foldOthers sums up the rows of other owners.
func foldOthers(v Viewer, rows []wire.Usage) []wire.Usage {
	type place struct {
		at                                                   int64
		site, partition, kind, node, qos, size, gpus, length string
	}
	var out []wire.Usage
	at := map[place]int{}
	for _, r := range rows {
		if v.Sees(r.Owner) {
			out = append(out, r)
			continue
		}
		k := place{site: r.Site, partition: r.Partition, kind: r.Kind, node: r.Node, qos: r.QOS, size: r.Size, gpus: r.GPUs,
			length: r.Length}
		if r.From != nil {
			k.at = r.From.UnixNano()
		}
		i, ok := at[k]
		if !ok {
			r.Owner = othersRow
			at[k] = len(out)
			out = append(out, r)
			continue
		}
		figure.Add(&out[i].UsageFigures, &r.UsageFigures)
		for to, share := range map[**float64]*float64{&out[i].CapacityShare: r.CapacityShare, &out[i].UsedShare: r.UsedShare} {
			if share != nil {
				sum := *share
				if *to != nil {
					sum += **to
				}
				*to = &sum
			}
		}
	}
	return out
}
