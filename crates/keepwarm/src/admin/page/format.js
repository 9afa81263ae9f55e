// Values in words, as `keepwarm status` and `keepwarm top` write them (status/table.rs).

// Control characters, and those that turn the direction of text or are not seen.
const HARMFUL = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/gu;

export function words(value) {
  return value === null || value === undefined ? "-" : String(value).toWellFormed().replace(HARMFUL, "?");
}

/** Text of several lines. */
export function lines(text) {
  return text.replaceAll("\t", "    ").split("\n").map(words).join("\n");
}

/** Seconds as `12ms`, `3.2s`, `5m12s`, `3h07m`, `2d04h`. */
export function time(seconds) {
  if (typeof seconds !== "number") return "-";
  const whole = Math.max(0, Math.trunc(seconds));
  const two = (number) => String(Math.trunc(number)).padStart(2, "0");
  if (whole < 1) return `${Math.round(seconds * 1e3)}ms`;
  if (whole < 10) return `${seconds.toFixed(1)}s`;
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.trunc(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.trunc(whole / 3600)}h${two((whole % 3600) / 60)}m`;
  return `${Math.trunc(whole / 86400)}d${two((whole % 86400) / 3600)}h`;
}

/** Bytes as `11.2 MiB`. */
export function size(bytes) {
  if (typeof bytes !== "number") return "-";
  if (bytes < 1024) return `${bytes.toFixed(0)} B`;
  for (const unit of ["KiB", "MiB"]) {
    bytes /= 1024;
    if (bytes < 1024) return `${bytes.toFixed(1)} ${unit}`;
  }
  return `${(bytes / 1024).toFixed(1)} GiB`;
}

/** `+1.2 MiB`, `-3.0 KiB`. */
export function signedSize(bytes) {
  if (typeof bytes !== "number") return "-";
  return bytes === 0 ? "0" : `${bytes < 0 ? "-" : "+"}${size(Math.abs(bytes))}`;
}

export function rate(perSecond) {
  return typeof perSecond === "number" ? perSecond.toFixed(1) : "-";
}

export function share(part) {
  return typeof part === "number" ? `${(part * 100).toFixed(0)}%` : "-";
}

export function joined(values) {
  return Array.isArray(values) && values.length > 0 ? values.map(words).join(", ") : "-";
}
