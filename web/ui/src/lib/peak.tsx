// The highest minute of a range, with its time; of more than two days no minute is looked for.
import { promRange, useAsk } from "./api";
import { Q, When } from "./parts";
import type { Range } from "./range";
import { rateOver } from "./users";
import type { Unit } from "./units";

/** A tile of facts. `expr` gives the expression for the time that rates are taken over, `sel` the matchers of the nodes that decide about it. */
export function Peak({
  what,
  expr,
  sel = "",
  unit,
  r,
}: {
  what: string;
  expr: (over: string) => string;
  sel?: string;
  unit: Unit;
  r: Range;
}) {
  const may = r.length <= 2 * 86400,
    a = useAsk(
      may ? `peak ${expr("")} ${r.from} ${r.to}` : null,
      false,
      async (_p, s) => {
        const fine = { ...r, step: 60 },
          over = await rateOver(fine, s, sel),
          [l] = await promRange(expr(`[${over}s]`), r.from, r.to, 60, s);
        return (l?.values ?? []).reduce<{ t: number; v: number } | null>(
          (m, [t, x]) => (Number(x) > (m?.v ?? 0) ? { t, v: Number(x) } : m),
          null,
        );
      },
      `peak ${expr("")} ${r.length} ${r.fixed ? r.from : ""}`,
    );
  return !may || (a.data === null && !a.busy) ? null : (
    <li>
      <span class="what">{what}</span>
      <b>{a.data ? <Q v={a.data.v} unit={unit} /> : "…"}</b>
      <small>
        {a.data ? <When t={new Date(a.data.t * 1000).toISOString()} /> : "the highest minute"}
      </small>
    </li>
  );
}
