import { describe, expect, test } from 'vitest'
import { forecast, input, limit, task } from '../../src/exports/index.ts'
import { createEngineHarness } from './engine-harness.ts'

describe('a policy as text', () => {
  test('paces a named limit and an inline one like the object of the same policy', async () => {
    const { start, clock, at } = createEngineHarness()
    const starts: Record<string, number[]> = { named: [], inline: [] }
    const run = (name: string) => (): void => void starts[name]?.push(at())
    const named = task('work.named', input<number>(), { limits: [limit('named', '2/s')], run: run('named') })
    const inline = task('work.inline', input<number>(), { limits: ['1 per 200ms'], run: run('inline') })
    await start({ tasks: [named, inline] })
    for (const each of [named, inline]) await each.enqueueMany([1, 2, 3, 4])
    await clock.advance('3s')
    expect(starts).toEqual({ named: [0, 0, 0.5, 1], inline: [0, 0.2, 0.4, 0.6] })
  })

  test('overrides the numbers of a limit of either kind, and never the kind', async () => {
    const { start } = createEngineHarness()
    const [bucket, window] = [limit('bucket', '10/m'), limit('window', '10 in any 1 min')]
    const work = task('work.item', input<number>(), { limits: [bucket, window], run: () => undefined })
    const { limits } = await start({ tasks: [work] })
    await limits.override('bucket', undefined, '20/m burst 5')
    await limits.override(window, undefined, '20/m')
    expect((await limits.overrides()).map(({ limit: name, change }) => [name, change])).toEqual(
      expect.arrayContaining([
        ['bucket', { rate: 20, per: '1m', burst: 5 }],
        ['window', { max: 20, per: '1m' }],
      ]),
    )
    const refused = [
      ['bucket', '20 in any 1 min', 'policy.invalid'],
      ['bucket', '20/mn', 'policy.invalid'],
      ['none', '20/m', 'limit.unknown'],
    ] as const
    for (const [name, text, code] of refused)
      await expect(limits.override(name, undefined, text)).rejects.toMatchObject({ code })
  })

  test('is forecast, alone and beside a second limit', async () => {
    const { start } = createEngineHarness()
    const engine = await start({ tasks: [task('work.item', { limits: [limit('crm', '1/s')], run: () => undefined })] })
    expect(forecast('10/s', { backlog: 110, shared: '100/m' })).toMatchObject({ drainMs: 10_000 })
    expect(await engine.forecast('crm', { backlog: 5, policy: 'every 2s' })).toMatchObject({ drainMs: 8000 })
  })
})
