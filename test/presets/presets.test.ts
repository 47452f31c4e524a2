import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { input, limit, type Limit, RateLimited, type SluiceError, task } from '../../src/exports/index.ts'
import * as door from '../../src/exports/presets.ts'
import type { CountedPreset, Preset } from '../../src/exports/presets.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { createEngineHarness } from '../engine/engine-harness.ts'
import { NOW, REFUSALS, REPORTS } from './answers.ts'

type Callable = Preset | CountedPreset
const all = door.presets as readonly Callable[]
const COUNT = 500

/** The limits of every plan of a preset; of one that takes counts, with a count for each. */
function everyPlan(of: Callable): { readonly plan: string; readonly limits: Readonly<Record<string, Limit>> }[] {
  if ('plans' in of) return Object.keys(of.plans).map((plan) => ({ plan, limits: of(plan) }))
  return [{ plan: 'counts', limits: of(Object.fromEntries(Object.keys(of.counted).map((name) => [name, COUNT]))) }]
}

function named(name: string): Callable {
  const found = all.find(({ about }) => about.name === name)
  if (!found) throw new Error(`no preset ${name}`)
  return found
}

const entries = all.map((each) => [each.about.name, each] as const)

describe('every preset', () => {
  test.each(entries)('%s has a source with an address and the day of reading', (_, { about }) => {
    expect(about.sources.length).toBeGreaterThan(0)
    for (const { url, read, dated } of about.sources) {
      expect(new URL(url).protocol).toBe('https:')
      for (const day of dated === undefined ? [read] : [read, dated]) {
        expect(day).toMatch(/^\d{4}-\d\d-\d\d$/)
        expect(new Date(day).toISOString().slice(0, 10)).toBe(day)
      }
      expect((dated ?? read) <= read).toBe(true)
    }
  })

  test('leaves through the door under a name of its own', () => {
    expect(all.length).toBeGreaterThanOrEqual(20)
    expect(new Set(all.map(({ about }) => about.name)).size).toBe(all.length)
    const exported = new Set(Object.values(door).filter((each) => typeof each === 'function'))
    expect(exported).toEqual(new Set(all))
    for (const { about } of all) expect(about.name).toMatch(/^[a-z]+(-[a-z]+)*$/)
  })

  test('is counted by the guide', () => {
    const guide = readFileSync(new URL('../../docs/guides/presets.md', import.meta.url), 'utf8')
    expect(guide).toContain(`the limits of ${all.length} APIs by plan`)
  })

  test.each(entries)('%s answers limits that an engine takes, each with a budget of its own', async (_, of) => {
    for (const { limits } of everyPlan(of)) {
      const { start, clock } = createEngineHarness()
      let ran = 0
      const uses = Object.values(limits).map((each) => each.by(() => 'acme'))
      const work = task('work.item', input<number>(), { limits: uses, run: () => void ran++ })
      const engine = await start({ tasks: [work] })
      await work.enqueue(1)
      await clock.advance('1s')
      expect(ran).toBe(1)
      const names = (await engine.limits.list()).map(({ name }) => name)
      expect(names.toSorted()).toEqual(
        Object.values(limits)
          .map(({ name }) => name)
          .toSorted(),
      )
    }
  })

  test.each(entries)('%s guards its windows, and says what a budget belongs to', (_, of) => {
    const shown =
      'plans' in of ? Object.values(of.plans).flatMap((plan) => Object.values(plan)) : Object.values(of.counted)
    for (const { policy, key, unit } of shown) {
      const text = { ...policy, ...(policy.policy && { policy: policy.policy.replace('{count}', String(COUNT)) }) }
      const { rule, guardUs = 0, defaultGuard } = normalisePolicy(text as typeof policy, 'limit x')
      if (rule?.kind === 'sliding') expect([defaultGuard, guardUs > 0]).toEqual([undefined, true])
      expect(key === null || key.length > 0).toBe(true)
      expect(unit === undefined || unit.length > 0).toBe(true)
    }
  })
})

describe('the refusals of an API', () => {
  test.each(REFUSALS)('$preset tells a wait of $wait by a $status', ({ preset, status, headers = {}, body, wait }) => {
    const answer = { status, headers: new Headers(headers) }
    const told = named(preset).refused(answer, { body })
    expect(told).toBeInstanceOf(RateLimited)
    const expected =
      wait === 'none'
        ? { kind: 'absent' }
        : 'ms' in wait
          ? { kind: 'delay', us: wait.ms * 1000 }
          : { kind: 'at', epochMs: Date.parse(wait.at) }
    expect(told?.retryAfter).toEqual(expected)
  })

  test('are known of every preset', () => {
    expect(new Set(REFUSALS.map(({ preset }) => preset))).toEqual(new Set(all.map(({ about }) => about.name)))
  })

  test.each(entries)('%s refuses nothing by an ordinary answer', (_, { refused }) => {
    for (const status of [200, 201, 400, 401, 403, 404, 500])
      expect(refused({ status, headers: {} }, { body: { ok: true } })).toBeNull()
  })

  test('name the limit that closes, and keep the headers for calibration', () => {
    const told = door.airtable.refused({ status: 429, headers: {} }, { limit: 'airtable.base' })
    expect(told).toMatchObject({ limitName: 'airtable.base', retryAfter: { kind: 'delay', us: 30_000_000 } })
    expect(told?.headers?.get('x')).toBeNull()
  })
})

describe('a calibrated limit', () => {
  test.each(REPORTS)(
    'of $preset has $left of $limit left by the headers',
    async ({ preset, limit: name, headers, left }) => {
      const { start, clock } = createEngineHarness()
      await clock.advance(Date.parse(NOW) - clock.now())
      const [first] = everyPlan(named(preset))
      const api = first?.limits[name]
      if (!api) throw new Error(`no limit ${name}`)
      const work = task('work.item', input<number>(), {
        limits: [api],
        run: (_, ctx) => ctx.observe({ status: 200, headers: new Headers(headers) }),
      })
      const engine = await start({ tasks: [work] })
      await work.enqueue(1)
      await clock.advance(0)
      const [bucket] = await engine.limits.inspect(api)
      expect(bucket?.available).toBe(left)
    },
  )

  test('is in that list if its preset has one', () => {
    const calibrating = everyPreset().filter(({ policy }) => policy.calibrate !== undefined)
    const known = new Set(REPORTS.map(({ preset, limit: name }) => `${preset} ${name}`))
    const missing = calibrating.map(({ preset, name }) => `${preset} ${name}`).filter((each) => !known.has(each))
    expect([...new Set(missing)]).toEqual(['anthropic input'])
  })

  function everyPreset() {
    return all.flatMap((each) => {
      const limits = 'plans' in each ? Object.values(each.plans) : [each.counted]
      return limits.flatMap((plan) =>
        Object.entries(plan).map(([name, { policy }]) => ({ preset: each.about.name, name, policy })),
      )
    })
  }
})

describe('a preset', () => {
  test('answers the limits of a plan by their short names', () => {
    const { minute, concurrent } = door.xero('standard')
    expect([minute.name, concurrent.name]).toEqual(['xero.minute', 'xero.concurrent'])
    expect(door.slack('tier2').calls.name).toBe('slack.tier2.calls')
  })

  test('takes another name, guard and behaviour', async () => {
    const { start } = createEngineHarness()
    const { minute } = door.xero('standard', { name: 'xero-au', guard: '1s', onLimit: 'drop', maxWait: '5s' })
    const engine = await start({ tasks: [task('work.item', { limits: [minute], run: () => null })] })
    expect(await engine.limits.list()).toMatchObject([
      {
        name: 'xero-au.minute',
        policy: { rule: { max: 60, periodUs: 61_000_000 }, onLimit: 'drop', maxWaitUs: 5_000_000 },
      },
    ])
  })

  test('is the same budget at every call, beside a limit of one’s own', async () => {
    const { start } = createEngineHarness()
    const limits = [door.stripe('live').account, door.stripe('live').account, limit('own', '5/s')]
    const tasks = limits.map((each, i) => task(`work.item${i}`, { limits: [each], run: () => null }))
    const engine = await start({ tasks })
    expect((await engine.limits.list()).map(({ name }) => name).toSorted()).toEqual(['own', 'stripe.account'])
  })

  test.each<[() => unknown, string]>([
    [() => door.github('usr' as 'user'), 'did you mean user?'],
    [() => door.github(undefined as never), 'The plan of preset github is invalid'],
    [() => door.github('user', { gard: '1s' } as never), 'did you mean guard?'],
    [() => door.openai({ requests: 5 } as never), 'The count tokens of preset openai is invalid: undefined'],
    [() => door.openai({ requests: 5, tokens: 0 }), 'The count tokens of preset openai is invalid: 0'],
    [() => door.openai({ requests: 5, token: 9 } as never), 'did you mean tokens?'],
    [() => door.github.refused({ status: 429, headers: {} }, { bdy: 1 } as never), 'did you mean body?'],
  ])('refuses what it does not know: %s', (call, part) => {
    let message = ''
    try {
      call()
    } catch (error) {
      expect((error as SluiceError).code).toBe('option.invalid')
      message = (error as SluiceError).message
    }
    expect(message).toContain(part)
  })
})
