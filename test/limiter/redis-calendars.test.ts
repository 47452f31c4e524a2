// The script on Redis knows no time zones. Each call carries the windows of its calendars.
import { afterAll, describe, expect, it } from 'vitest'
import type { UnitAnswer } from '../../src/limiter/contract/limiter.ts'
import { RedisBackend } from '../../src/limiter/redis/backend.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'
import { EPOCH_US, policyOf } from '../policy/histories.ts'
import { clear, connect, namespace, REDIS } from './redis-server.ts'

const client = REDIS === null ? null : await connect()
const DAY: Rule = {
  kind: 'fixed',
  max: 5,
  window: { align: 'calendar', unit: 'day', timezone: 'Europe/Berlin' },
  guardUs: 0,
}
const HOUR_US = 3_600_000_000

/** A process at the Redis whose calls are counted. @param carried changes the windows of a call */
function processOf(name: string, nowUs: () => number, carried: (windows: string) => string = (windows) => windows) {
  const counted = { calls: 0 }
  const sendCommand = async (args: string[]): Promise<unknown> => {
    counted.calls++
    return client?.sendCommand(args.map((each) => (each.startsWith('{"day ') ? carried(each) : each)))
  }
  const backend = new RedisBackend({ sendCommand }, { namespace: name, nowUs, close: async () => undefined })
  let permits = 0
  const ask = (count: number, key = ''): Promise<readonly UnitAnswer[]> =>
    backend.acquire(
      Array.from({ length: count }, () => {
        const permit = `${counted.calls}-${permits++}`
        return { uses: [{ limit: 'day', key, weight: 1 }], priority: 0, line: permits, permit, leaseUs: 1 }
      }),
    )
  return { backend, ask, counted }
}

const starts = (answers: readonly UnitAnswer[]): number => answers.filter(({ kind }) => kind === 'granted').length

describe.skipIf(client === null)('windows of the calendar on Redis', () => {
  const name = namespace()
  let nowUs = EPOCH_US
  const defined = async (carried?: (windows: string) => string) => {
    const found = processOf(name, () => nowUs, carried)
    await found.backend.define([{ name: 'day', policy: policyOf(DAY), version: 0 }])
    return found
  }
  afterAll(async () => {
    if (client) await clear(client, name)
    await client?.close()
  })

  it('cost one call of the script, however many processes ask at once', async () => {
    const fleet = await Promise.all(Array.from({ length: 8 }, () => defined()))
    // The first call loads the script.
    await fleet[0]?.ask(1, 'other')
    const before = fleet.map(({ counted }) => counted.calls)
    const answers = await Promise.all(fleet.map(({ ask }) => ask(3)))
    expect(answers.map(starts).reduce((sum, each) => sum + each, 0)).toBe(5)
    // Midnight in Berlin, an hour before that of UTC.
    for (const each of answers.flat())
      if (each.kind === 'denied') expect(each.retryAfterUs).toBe(23 * HOUR_US - (nowUs - EPOCH_US))
    expect(fleet.map(({ counted }, i) => counted.calls - (before[i] ?? 0))).toEqual(fleet.map(() => 1))
    nowUs += 23 * HOUR_US
    expect(starts(await fleet[0]!.ask(6))).toBe(5)
  })

  it('hold for processes of an earlier version, and where one of those has defined the limit', async () => {
    nowUs += 24 * HOUR_US
    const { ask } = await defined()
    const place = `{sluice:${name}}:policies`
    const policy = JSON.parse(String(await client?.sendCommand(['HGET', place, 'day']))) as object
    // Their script leaves such a limit to their process, which reads the calendar from the definition.
    expect(policy).toMatchObject({ slow: true })
    const { rule: _, ...written } = { rule: null, ...policy }
    await client?.sendCommand(['HSET', place, 'day', JSON.stringify(written)])
    expect(starts(await ask(7))).toBe(5)
    const others = await Promise.all([ask(7, 'a'), ask(7, 'a')])
    expect(starts(others.flat())).toBe(5)
    await client?.sendCommand(['HSET', place, 'day', JSON.stringify(policy)])
  })

  it.each([
    ['none', (): string => ''],
    [
      'those of another year',
      (): string => JSON.stringify({ 'day Europe/Berlin': [1, 86_400_000_001, 172_800_000_001] }),
    ],
    ['those of another calendar', (): string => JSON.stringify({ 'day UTC': [EPOCH_US, EPOCH_US + 24 * HOUR_US] })],
  ] as const)('are decided by the process where a call carries %s', async (_, carried) => {
    nowUs += 24 * HOUR_US
    const { ask } = await defined(carried)
    const answers = await ask(7)
    expect(starts(answers)).toBe(5)
    expect(answers[6]).toMatchObject({ kind: 'denied', retryAfterUs: 24 * HOUR_US })
  })
})
