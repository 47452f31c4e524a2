/** Times and texts as a person reads them in a terminal. */
const MINUTE_S = 60
const HOUR_S = 3600
const DAY_S = 86_400

/** A time to come, in words: `now`, `250 ms`, `12.3 s`, `2 min 5 s`, `3 h 20 min`, `4 d 6 h`. */
export function inWords(ms: number): string {
  if (ms < 0.5) return 'now'
  if (ms < 999.5) return `${Math.round(ms)} ms`
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < HOUR_S) return `${Math.floor(seconds / MINUTE_S)} min ${seconds % MINUTE_S} s`
  if (seconds < DAY_S) return `${Math.floor(seconds / HOUR_S)} h ${Math.floor((seconds % HOUR_S) / MINUTE_S)} min`
  return `${Math.floor(seconds / DAY_S)} d ${Math.floor((seconds % DAY_S) / HOUR_S)} h`
}

/** Text of others as it may be shown: a key or an error must not send commands to the terminal, nor break a table. */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '�')
}
