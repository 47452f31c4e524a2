const MONTHS: readonly string[] = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')
const YEAR_MS = 31_556_952_000

// Date.parse takes almost anything for a date, and reads the third form in local time.
const IMF_FIXDATE = /^[A-Z][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$/
const RFC_850 = /^[A-Z][a-z]{5,8}, (\d{2})-([A-Z][a-z]{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2}) GMT$/
const ASCTIME = /^[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \d]\d) (\d{2}):(\d{2}):(\d{2}) (\d{4})$/

/**
 * Reads an HTTP date in any of its three formats (RFC 9110, section 5.6.7) as epoch ms; null for other text.
 *
 * @param nowMs decides the century of a two-digit year: a year over 50 years ahead lies in the past.
 */
export function httpDateMs(text: string, nowMs: number): number | null {
  const imf = IMF_FIXDATE.exec(text)
  if (imf !== null) return utcMs(Number(imf[3]), imf[2], imf[1], imf.slice(4))
  const rfc850 = RFC_850.exec(text)
  if (rfc850 !== null)
    return shortYearMs(Number(rfc850[3]), nowMs, (year) => utcMs(year, rfc850[2], rfc850[1], rfc850.slice(4)))
  const asctime = ASCTIME.exec(text)
  if (asctime !== null) return utcMs(Number(asctime[6]), asctime[1], asctime[2], asctime.slice(3, 6))
  return null
}

function shortYearMs(yearOfCentury: number, nowMs: number, read: (year: number) => number | null): number | null {
  const century = Math.floor(new Date(nowMs).getUTCFullYear() / 100) * 100
  // Around the turn of a century the nearest reading may lie in the next one.
  for (const year of [century + 100, century, century - 100]) {
    const ms = read(year + yearOfCentury)
    if (ms !== null && ms <= nowMs + 50 * YEAR_MS) return ms
  }
  return null
}

function utcMs(year: number, monthName = '', dayText = '', time: readonly string[] = []): number | null {
  const month = MONTHS.indexOf(monthName)
  const day = Number(dayText)
  const [hour = 0, minute = 0, second = 0] = time.map(Number)
  if (month < 0 || day < 1 || hour > 23 || minute > 59 || second > 60) return null
  // The 31st of a shorter month would become the 1st of the next.
  if (day > new Date(Date.UTC(year, month + 1, 0)).getUTCDate()) return null
  return Date.UTC(year, month, day, hour, minute, second)
}
