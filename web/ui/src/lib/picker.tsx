// The control of the range: lengths, earlier and later, from and to, back to now.
import { useState } from "preact/hooks";
import { local, moment, named, range, seconds, shifted, spans, usual, zoomTo } from "./range";
import { param, set } from "./state";

export function Picker() {
  const r = range.value,
    chosen = r.fixed
      ? ""
      : String(seconds(param("last")) || seconds(param("since")) || usual.value);
  const move = (by: 1 | -1) => set(shifted(r, by, Date.now() / 1000), false);
  return (
    <div class="range" role="group" aria-label="Time range">
      <button aria-label="Earlier" title="The same length before" onClick={() => move(-1)}>
        ‹
      </button>
      {spans.map(([v, text]) => (
        <button
          aria-pressed={chosen === v}
          onClick={() =>
            set({ last: v === String(usual.value) ? "" : v, since: "", from: "", to: "" }, false)
          }
        >
          {text}
        </button>
      ))}
      <Between />
      <button
        aria-label="Later"
        title="The same length after"
        disabled={!r.fixed}
        onClick={() => move(1)}
      >
        ›
      </button>
    </div>
  );
}

function Between() {
  const r = range.value,
    [open, setOpen] = useState(false),
    [from, setFrom] = useState(""),
    [to, setTo] = useState("");
  const a = moment(from || local(r.from)),
    b = moment(to || local(r.to)),
    good = a > 0 && b > a;
  const close = () => {
    setOpen(false);
    setFrom("");
    setTo("");
  };
  return (
    <details class="menu between" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary class={r.fixed ? "on" : ""}>{r.fixed ? named(r) : "from – to"}</summary>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (good) {
            zoomTo(a, b);
            close();
          }
        }}
      >
        <label>
          From{" "}
          <input
            type="datetime-local"
            value={from || local(r.from)}
            onInput={(e) => setFrom(e.currentTarget.value)}
          />
        </label>
        <label>
          To{" "}
          <input
            type="datetime-local"
            value={to || local(r.to)}
            onInput={(e) => setTo(e.currentTarget.value)}
          />
        </label>
        {!good && (
          <p class="quiet" role="status">
            The end must be after the start.
          </p>
        )}
        <button disabled={!good}>Show</button>
        {r.fixed && (
          <button
            type="button"
            onClick={() => {
              set({ from: "", to: "" }, false);
              close();
            }}
          >
            Back to now
          </button>
        )}
        <p class="quiet">
          In your zone, {Intl.DateTimeFormat().resolvedOptions().timeZone}. Drag over a chart to
          zoom.
        </p>
      </form>
    </details>
  );
}
