import { MAX_DURATION_US } from '../base/duration.ts'
import { type Answer, type HeadersLike, headerSource } from './header-source.ts'
import { httpDateMs } from './http-date.ts'

/** The wait that an answer asks for: a delay from now, an instant of the wall clock, or none given. */
export type RetryAfter =
  | { readonly kind: 'delay'; /** Whole µs; 0 or more. */ readonly us: number }
  | { readonly kind: 'at'; /** Wall clock. */ readonly epochMs: number }
  | { readonly kind: 'absent' }

/** The budget that a response reports. Absent or unreadable values are left out. */
export interface RateLimitDetails {
  /** From Retry-After or retry-after-ms. */
  retryAfter?: RetryAfter
  /** When the scarcest budget renews, as reported. */
  reset?: RetryAfter
  /** The same instant on the wall clock, in epoch ms. */
  resetAtMs?: number
  /** Units left of that budget. */
  remaining?: number
  /** Units of that budget in all. */
  limit?: number
}

interface Budget {
  /** The budget's name, if the answer has several. */
  name?: string | undefined
  limit?: number | undefined
  remaining?: number | undefined
  reset?: RetryAfter | undefined
}

const MAX_HEADER_LENGTH = 4_096
const NUMBER = /^\d+(?:\.\d+)?$/
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
// Larger numbers are instants: as a delay they would be 31 years, or as seconds lie in the year 5138.
const FIRST_EPOCH_SECONDS = 1e9
const FIRST_EPOCH_MS = 1e11
const LAST_EPOCH_MS = 8.64e15

/**
 * Reads the budget that a response reports. It knows Retry-After and the RateLimit fields of the IETF drafts: the three
 * fields of drafts 3 to 6, the dictionary of draft 7, the list from draft 8 on. It also knows the common x-ratelimit-*
 * headers, anthropic-ratelimit-*, X-Shopify-Shop-Api-Call-Limit, and the budgets of Xero and HubSpot. Of several budgets the scarcest counts: of the
 * used-up ones (otherwise of all) the one renewed last. It ignores unreadable values and never throws.
 *
 * @param nowMs the wall clock when the response arrived.
 * @param name the budget to read if there are several, as `tokens` or `daily`. Without a budget of that name the result
 * is empty.
 */
export function readRateLimitHeaders(
  headers: HeadersLike,
  nowMs: number,
  name: string | null = null,
): RateLimitDetails {
  const source = headerSource(headers)
  const field = (name: string): string => (source.get(name) ?? '').trim().slice(0, MAX_HEADER_LENGTH)
  const all = budgets(field, nowMs)
  const budget = scarcest(name === null ? all : all.filter((each) => each.name === name), nowMs)
  const retryAfter = millis(field('retry-after-ms')) ?? retryAfterField(field('retry-after'), nowMs)
  const resetAtMs = budget?.reset === undefined ? undefined : instantMs(budget.reset, nowMs)
  return {
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(budget?.reset === undefined ? {} : { reset: budget.reset }),
    ...(resetAtMs === undefined ? {} : { resetAtMs }),
    ...(budget?.remaining === undefined ? {} : { remaining: budget.remaining }),
    ...(budget?.limit === undefined ? {} : { limit: budget.limit }),
  }
}

/** The first family of headers that is there: two families speak of the same budgets, the newer one more exactly. */
function budgets(field: (name: string) => string, nowMs: number): readonly Budget[] {
  const structured = structuredBudgets(field('ratelimit'))
  if (structured.length > 0) return structured
  const families = [
    [separate(field, 'ratelimit-limit', 'ratelimit-remaining', ['ratelimit-reset'], nowMs)],
    ['', '-requests', '-tokens'].map((suffix) =>
      separate(
        field,
        `x-ratelimit-limit${suffix}`,
        `x-ratelimit-remaining${suffix}`,
        // The delay first: the instant is by the server's clock, which need not agree with ours.
        [`x-ratelimit-reset-after${suffix}`, `x-ratelimit-reset${suffix}`],
        nowMs,
        suffix.slice(1),
      ),
    ),
    [separate(field, 'x-rate-limit-limit', 'x-rate-limit-remaining', ['x-rate-limit-reset'], nowMs)],
    ANTHROPIC.map((name) => {
      const of = (part: string): string => `anthropic-ratelimit-${name}-${part}`
      return separate(field, of('limit'), of('remaining'), [of('reset')], nowMs, name)
    }),
    [shopify(field('x-shopify-shop-api-call-limit'))],
    XERO.map(([name, header]): Budget | null => {
      const remaining = count(field(header))
      return remaining === undefined ? null : { name, remaining }
    }),
    ['daily', 'secondly'].map((name) => {
      const of = `x-hubspot-ratelimit-${name}`
      return separate(field, of, `${of}-remaining`, [], nowMs, name)
    }),
  ]
  for (const family of families) {
    const found = family.filter((budget) => budget !== null)
    if (found.length > 0) return found
  }
  return []
}

const ANTHROPIC = [
  'requests',
  'tokens',
  'input-tokens',
  'output-tokens',
  'priority-input-tokens',
  'priority-output-tokens',
]

const XERO: readonly (readonly [name: string, header: string])[] = [
  ['minute', 'x-minlimit-remaining'],
  ['day', 'x-daylimit-remaining'],
  ['app-minute', 'x-appminlimit-remaining'],
]

/** `32/40`: calls in the leaking bucket, and its capacity. It does not say when the bucket is empty. */
function shopify(text: string): Budget | null {
  const [, used, limit] = /^(\d+)\/(\d+)$/.exec(text) ?? []
  const [held, most] = [count(used), count(limit)]
  return held === undefined || most === undefined ? null : { limit: most, remaining: Math.max(0, most - held) }
}

/**
 * Reads the wait that a refusal asks for: Retry-After, otherwise the budget's reset.
 *
 * GitHub's secondary limits refuse calls while the reported budget has units left. Its documentation asks for a wait of
 * one minute then, not until that budget renews.
 */
export function readRefusal(headers: HeadersLike, nowMs: number): RetryAfter {
  const { retryAfter, reset, remaining } = readRateLimitHeaders(headers, nowMs)
  if (retryAfter) return retryAfter
  if (isGitHub(headers) && remaining !== 0) return delay(GITHUB_SECONDARY_MS)
  return reset ?? { kind: 'absent' }
}

/**
 * Whether an answer refuses a call for lack of budget: 429, or GitHub's 403. GitHub uses it for its primary budget
 * (nothing remains) and its secondary ones (Retry-After).
 */
export function isRefusal({ status, headers }: Answer): boolean {
  if (status === 429) return true
  if (status !== 403 || !isGitHub(headers)) return false
  const source = headerSource(headers)
  return (source.get('retry-after') ?? '') !== '' || source.get('x-ratelimit-remaining')?.trim() === '0'
}

const GITHUB_SECONDARY_MS = 60_000

/** By headers that say what GitHub's say: one that cannot be read counts as absent. */
function isGitHub(headers: HeadersLike): boolean {
  const source = headerSource(headers)
  return GITHUB.some(([name, said]) => said.test(source.get(name)?.trim().slice(0, MAX_HEADER_LENGTH) ?? ''))
}

const GITHUB: readonly (readonly [name: string, said: RegExp])[] = [
  ['x-github-request-id', /^[\da-f]+(?::[\da-f]+)+$/i],
  ['x-ratelimit-resource', /^[a-z]+(?:_[a-z]+)*$/],
  ['x-ratelimit-used', /^\d+$/],
  ['x-github-media-type', /^github\./i],
]

function separate(
  field: (name: string) => string,
  limitName: string,
  remainingName: string,
  resetNames: readonly string[],
  nowMs: number,
  name = '',
): Budget | null {
  // Draft 3 appends the policy to the limit: `10, 10;w=1, 50;w=60`.
  const limit = count(/^\d+/.exec(field(limitName))?.[0])
  const remaining = count(field(remainingName))
  const reset = resetNames.map((name) => resetField(field(name), nowMs)).find((read) => read !== undefined)
  return limit === undefined && remaining === undefined && reset === undefined
    ? null
    : { name, limit, remaining, reset }
}

/** `"burst";r=0;t=5, "daily";r=100;t=3600` (draft 8 on) or `limit=100, remaining=0, reset=5` (draft 7). */
function structuredBudgets(text: string): readonly Budget[] {
  const list: Budget[] = []
  const dictionary: Record<string, number | undefined> = {}
  for (const member of split(text, ',')) {
    const [head = '', ...parameters] = split(member, ';').map((part) => part.trim())
    const entry = /^(limit|remaining|reset)=(\d+)$/.exec(head)
    if (entry?.[1] !== undefined) {
      dictionary[entry[1]] = count(entry[2])
      continue
    }
    const remaining = parameter(parameters, 'r')
    const seconds = parameter(parameters, 't')
    if (remaining === undefined && seconds === undefined) continue
    list.push({
      name: /^"((?:[^"\\]|\\.)*)"$/.exec(head)?.[1] ?? head,
      limit: parameter(parameters, 'q'),
      remaining,
      reset: seconds === undefined ? undefined : delay(seconds * 1_000),
    })
  }
  const { limit, remaining, reset } = dictionary
  if (limit !== undefined || remaining !== undefined || reset !== undefined) {
    list.push({ limit, remaining, reset: reset === undefined ? undefined : delay(reset * 1_000) })
  }
  return list
}

/** Splits at a separator outside of quoted strings. */
function split(text: string, separator: ',' | ';'): readonly string[] {
  const pattern = separator === ',' ? /(?:"(?:[^"\\]|\\.)*"|[^,"])+/g : /(?:"(?:[^"\\]|\\.)*"|[^;"])+/g
  return text.match(pattern) ?? []
}

function parameter(parameters: readonly string[], name: string): number | undefined {
  return count(parameters.find((text) => text.startsWith(`${name}=`))?.slice(name.length + 1))
}

function scarcest(all: readonly Budget[], nowMs: number): Budget | undefined {
  const empty = all.filter((budget) => budget.remaining === 0)
  const renewedMs = ({ reset }: Budget): number =>
    reset === undefined ? -Infinity : (instantMs(reset, nowMs) ?? -Infinity)
  return (empty.length > 0 ? empty : all).toSorted((a, b) => renewedMs(b) - renewedMs(a))[0]
}

function retryAfterField(text: string, nowMs: number): RetryAfter | undefined {
  if (NUMBER.test(text)) return delay(Number(text) * 1_000)
  const epochMs = httpDateMs(text, nowMs)
  return epochMs === null ? undefined : at(epochMs)
}

function millis(text: string): RetryAfter | undefined {
  return NUMBER.test(text) ? delay(Number(text)) : undefined
}

/** Seconds from now, an instant in epoch seconds or ms, a timestamp, an HTTP date, or units as in `6m0s`. */
function resetField(text: string, nowMs: number): RetryAfter | undefined {
  if (NUMBER.test(text)) {
    const value = Number(text)
    if (value < FIRST_EPOCH_SECONDS) return delay(value * 1_000)
    return at(value < FIRST_EPOCH_MS ? value * 1_000 : value)
  }
  if (TIMESTAMP.test(text)) return at(Date.parse(text))
  return unitsField(text) ?? retryAfterField(text, nowMs)
}

function unitsField(text: string): RetryAfter | undefined {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/.test(text)) return undefined
  const parts = text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g)
  let ms = 0
  for (const [, value, unit] of parts) ms += Number(value) * (UNIT_MS[unit ?? ''] ?? 0)
  return delay(ms)
}

function delay(ms: number): RetryAfter {
  // Rounded up: a start too early is refused again. The bound keeps a number of many digits an exact integer.
  return { kind: 'delay', us: Math.min(Math.ceil(ms * 1_000), MAX_DURATION_US) }
}

function at(epochMs: number): RetryAfter | undefined {
  // Rounded up, since a Date would drop the fraction. NaN and times beyond a Date's range are invalid.
  return epochMs <= LAST_EPOCH_MS ? { kind: 'at', epochMs: Math.ceil(epochMs) } : undefined
}

function count(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

function instantMs(reset: RetryAfter, nowMs: number): number | undefined {
  if (reset.kind === 'absent') return undefined
  return reset.kind === 'at' ? reset.epochMs : nowMs + reset.us / 1_000
}
