const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone
const DAY_MS = 86_400_000
const TIME = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
})
const DATE_TIME = new Intl.DateTimeFormat(undefined, {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
})
const NUMBER = new Intl.NumberFormat('en')
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

/** A count with its digits in groups: 12,345. */
export function count(value: number): string {
  return NUMBER.format(Math.round(value * 1000) / 1000)
}

/** A count for narrow places: 12.3K. */
export function shortCount(value: number): string {
  return Math.abs(value) < 10_000 ? count(Math.round(value * 10) / 10) : SHORT.format(value)
}

/** A length of time, in its two largest units: 850 ms, 4.2 s, 3 min 20 s, 2 d 4 h. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '–'
  const value = Math.max(0, ms)
  if (value < 1) return value === 0 ? '0 s' : '< 1 ms'
  if (value < 1000) return `${Math.round(value)} ms`
  if (value < 60_000)
    return `${value < 10_000 ? (Math.floor(value / 100) / 10).toFixed(1) : Math.floor(value / 1000)} s`
  const units: [string, number][] = [
    ['d', DAY_MS],
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1000],
  ]
  const first = units.findIndex(([, size]) => value >= size)
  const [name, size] = units[first] ?? ['s', 1000]
  const next = units[first + 1]
  const rest = next ? Math.floor((value % size) / next[1]) : 0
  return `${Math.floor(value / size)} ${name}${next && rest > 0 ? ` ${rest} ${next[0]}` : ''}`
}

/** A time of today as a clock shows it, another with its date; in the viewer's zone. */
export function clockTime(ms: number, nowMs: number): string {
  const date = new Date(ms)
  if (Number.isNaN(date.getTime())) return '–'
  return date.toDateString() === new Date(nowMs).toDateString() ? TIME.format(date) : DATE_TIME.format(date)
}

/** The exact time, for a tooltip. */
export function exactTime(ms: number): string {
  const date = new Date(ms)
  if (Number.isNaN(date.getTime())) return 'not a time'
  return `${date.toISOString()} · ${date.toLocaleString()} ${ZONE}`
}

/** A position in words: 1st, 2nd, 12th. */
export function ordinal(position: number): string {
  const ending = { one: 'st', two: 'nd', few: 'rd', other: 'th' } as Record<string, string>
  return `${count(position)}${ending[new Intl.PluralRules('en', { type: 'ordinal' }).select(position)] ?? 'th'}`
}

/** `1 job`, `2 jobs`. */
export function plural(value: number, noun: string, many = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : many}`
}
