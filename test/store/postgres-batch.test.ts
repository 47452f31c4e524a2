import { expect, test } from 'vitest'
import { mayPass } from '../../src/base/errors.ts'
import { wrapError } from '../../src/database/postgres-error.ts'
import { Batch } from '../../src/store/postgres/batch.ts'

/** An error of the server, as `pg` has it. */
function refusal(code: string): Error {
  return wrapError(Object.assign(new Error(`refused with ${code}`), { code, severity: 'ERROR' })) as Error
}

/** A batch whose sends of these items fail; `sent` counts the items of each. */
function batchWhere(fails: (items: readonly number[]) => Error | null): {
  batch: Batch<number, number>
  sent: number[]
} {
  const sent: number[] = []
  const batch = new Batch<number, number>(async (items) => {
    sent.push(items.length)
    const error = fails(items)
    if (error) throw error
    return items.map((item) => item * 10)
  })
  return { batch, sent }
}

const hundred = Array.from({ length: 100 }, (_, i) => i)

test('a call that cannot be done is found by halves: the others are done in few statements', async () => {
  const { batch, sent } = batchWhere((items) => (items.includes(42) ? refusal('22P05') : null))
  const answers = await Promise.allSettled(hundred.map((item) => batch.add([item])))
  expect(answers.flatMap(({ status }, i) => (status === 'rejected' ? [i] : []))).toEqual([42])
  expect(answers[41]).toMatchObject({ value: [410] })
  expect(sent.length).toBeLessThan(20)
})

test.each(['25006', '53100', '53300', '57P01', '57P03', '08006', 'ECONNREFUSED'])(
  'an error %s says nothing of any one call: none is tried alone',
  async (code) => {
    const { batch, sent } = batchWhere(() => refusal(code))
    const answers = await Promise.allSettled(hundred.map((item) => batch.add([item])))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set(['rejected']))
    expect(sent).toEqual([100])
  },
)

test('errors that may pass are told from those that stay', () => {
  const passing = ['25006', '53100', '53200', '53300', '57P01', '57P02', '57P03', '57014', '08006', '40001', '40P01']
  const staying = ['23505', '23514', '22P05', '42P01', '42501', '54000', 'XX000']
  const all = [...passing, '55P03', '58030', 'ECONNRESET', 'ETIMEDOUT', ...staying]
  expect(all.filter((code) => !mayPass(refusal(code)))).toEqual(staying)
})
