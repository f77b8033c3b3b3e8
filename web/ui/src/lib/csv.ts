// CSV as spreadsheets open it: what could run as a formula is text (CWE-1236), control characters are gone.

/** One cell; names come from anybody. Numbers stay as they are. */
export function cell(text: string): string {
  let t = text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
  if (/^[=+\-@\t\r]/.test(t) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(t)) t = "'" + t;
  return /[",\n\r']/.test(t) ? `"${t.replace(/"/g, '""')}"` : t;
}
export const csv = (rows: string[][]): string =>
  rows.map((r) => r.map(cell).join(",") + "\r\n").join("");

/** Gives the browser a file to keep. */
export function save(name: string, content: string | Blob): void {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(
    new Blob([content], { type: content instanceof Blob ? content.type : "text/csv" }),
  );
  a.download = name;
  a.click();
  URL.revokeObjectURL(a.href);
}
