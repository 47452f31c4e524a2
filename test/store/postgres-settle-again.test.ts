// Settlements whose answer was lost, and which are therefore made again.
import { describe, expect, test } from 'vitest'
import type { Settlement, SettleResult } from '../../src/jobs/settlement.ts'
import { eachHarness, FAILURE, type Outcome, type StoreHarness } from '../conformance/store/store-harness.ts'
import { postgresBackend } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'

const OUTCOMES: readonly (readonly [name: string, outcome: Outcome])[] = [
  ['complete', { kind: 'complete', result: '1' }],
  ['retry at once', { kind: 'retry', delayUs: 0, error: FAILURE }],
  ['retry later', { kind: 'retry', delayUs: 5e6, error: FAILURE }],
  ['discard', { kind: 'discard', error: FAILURE }],
  ['cancel', { kind: 'cancel' }],
  ['give-back', { kind: 'give-back' }],
  ['snooze', { kind: 'snooze', delayUs: 1e6 }],
  ['push-back', { kind: 'push-back', limit: null, key: '', closedForUs: 1e6, error: FAILURE }],
  ['push-back that closes a bucket', { kind: 'push-back', limit: 'r', key: '', closedForUs: 1e6, error: FAILURE }],
]

withPostgres('settlements that are made again', () => {
  const backend = postgresBackend('settle again')
  const harness = eachHarness(backend)

  async function started(w: StoreHarness): Promise<Settlement & { startedUs: number }> {
    await w.define({ r: { rate: 100, per: '1m', concurrency: 2 } })
    await w.add('a', { limits: ['r'], attempts: 9 })
    expect(await w.start()).toEqual(['a'])
    const { seq, attempt, startedUs } = w.run('a')
    return { seq, attempt, startedUs } as Settlement & { startedUs: number }
  }

  describe.each(OUTCOMES)('%s', (_, outcome) => {
    test('is written once, and told both times', async () => {
      const w = harness()
      const settlement = { ...(await started(w)), ...outcome } as Settlement
      // An earlier try that is found later does not say when it was.
      const { atUs, ...first } = (await w.store.settle(w.worker, settlement)) as SettleResult & { atUs?: number }
      expect(atUs).toBe(w.store.nowUs())
      const kept = await w.get('a')
      expect(first.kind).toBe('settled')
      expect(await w.store.settle(w.worker, settlement, true)).toEqual({
        ...first,
        ...('adjusted' in first && { adjusted: false }),
      })
      expect(await w.get('a')).toEqual(kept)
      expect(await w.bucket('r')).toMatchObject({ active: 0 })
    })

    test('leaves a later run alone, also one of the same worker and attempt', async () => {
      const w = harness()
      const settlement = { ...(await started(w)), ...outcome } as Settlement
      await w.store.settle(w.worker, settlement)
      w.at(10_000)
      const goesOn = (await w.start()).length > 0
      const kept = await w.get('a')
      expect((await w.store.settle(w.worker, settlement, true)).kind).toBe('settled')
      expect(await w.get('a')).toEqual(kept)
      expect(await w.bucket('r')).toMatchObject({ active: goesOn ? 1 : 0 })
    })

    test('of a run that was lost is lost, whatever has become of the job', async () => {
      const w = harness()
      const settlement = { ...(await started(w)), ...outcome } as Settlement
      w.at(10_000_000)
      expect(await w.recover()).toEqual([['a', 'available']])
      expect(await w.store.settle(w.worker, settlement, true)).toEqual({ kind: 'lost' })
      await w.start()
      expect(await w.store.settle(w.worker, settlement, true)).toEqual({ kind: 'lost' })
      await w.complete('a')
      expect(await w.store.settle(w.worker, settlement, true)).toEqual({ kind: 'lost' })
    })
  })

  describe('a completion that deletes its job', () => {
    const DONE = { kind: 'complete', result: '1', keepUs: 0 } as const

    test('is written once, and told both times', async () => {
      const w = harness()
      const settlement: Settlement = { ...(await started(w)), ...DONE }
      expect(await w.store.settle(w.worker, settlement)).toMatchObject({ kind: 'settled', state: 'completed' })
      const told = { kind: 'settled', state: 'completed' }
      expect(await w.store.settle(w.worker, settlement, true)).toEqual(told)
      // A caller that knows of a flow, or keeps the job, would have left a row.
      for (const other of [{ keepUs: 1 }, { keepAtLeastUs: 1 }, { inFlow: true as const }])
        expect(await w.store.settle(w.worker, { ...settlement, ...other }, true)).toEqual({ kind: 'lost' })
      const cancel: Settlement = { ...settlement, kind: 'cancel' }
      expect(await w.store.settle(w.worker, cancel, true)).toEqual({ kind: 'lost' })
      expect(await w.bucket('r')).toMatchObject({ active: 0 })
    })

    test('is told once the server has executed an earlier try', async () => {
      const w = harness()
      const other = await w.reopen(backend)
      for (let n = 0; n < 20; n++) {
        await w.add('x')
        await w.start()
        const { seq, attempt, startedUs } = w.run('x')
        const settlement: Settlement = { seq, attempt, startedUs, ...DONE }
        const both = [w.store.settle(w.worker, settlement), other.store.settle(w.worker, settlement, true)]
        expect((await Promise.all(both))[1]).toMatchObject({ kind: 'settled', state: 'completed' })
      }
      await other.store.close()
    })
  })

  test('what an earlier try has not written is written', async () => {
    const w = harness()
    const settlement = { ...(await started(w)), kind: 'complete', result: '7' } as Settlement
    expect(await w.store.settle(w.worker, settlement, true)).toMatchObject({ kind: 'settled', state: 'completed' })
    expect(await w.get('a')).toMatchObject({ state: 'completed', result: '7' })
  })
})
