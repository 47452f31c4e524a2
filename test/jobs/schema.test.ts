import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { input, validate, type Schema } from '../../src/jobs/schema.ts'

const refusal = (message: RegExp): unknown =>
  expect.objectContaining({ code: 'input.invalid', message: expect.stringMatching(message) as string })

describe('validate', () => {
  test.each([
    ['zod', z.object({ tenantId: z.string() })],
    ['valibot', v.object({ tenantId: v.string() })],
    ['arktype', type({ tenantId: 'string' })],
  ] satisfies [string, Schema][])('checks with %s, at once', (_library, schema: Schema) => {
    expect(validate(schema, { tenantId: 'acme' }, 'the input')).toEqual({ tenantId: 'acme' })
    expect(() => validate(schema, { tenantId: 5 }, 'the input')).toThrow(
      refusal(/^the input does not match its schema: tenantId: /),
    )
  })

  test("gives the schema's output", () => {
    const schema = z.object({ on: z.string().transform((text) => text.length), more: z.number().default(7) })
    expect(validate(schema, { on: 'abc' }, 'x')).toEqual({ on: 3, more: 7 })
  })

  test('lists the path and the message of every issue', () => {
    const schema = z.object({
      tenants: z.array(z.object({ id: z.string('an id is text') })),
      n: z.number('n is missing'),
    })
    expect(() => validate(schema, { tenants: [{ id: 'a' }, { id: 1 }] }, 'x')).toThrow(
      refusal(/tenants\[1\]\.id: an id is text; n: n is missing$/),
    )
    expect(() => validate(z.string('text, please'), 1, 'x')).toThrow(refusal(/schema: text, please$/))
  })

  test('shows ten issues and counts the rest', () => {
    const list = Array.from({ length: 25 }, () => 1)
    expect(() => validate(z.array(z.string('t')), list, 'x')).toThrow(refusal(/\[9\]: t; and 15 more$/))
  })

  test('waits for a schema that is asynchronous', async () => {
    const schema = z.string().refine((text) => Promise.resolve(text !== 'taken'), 'is taken')
    expect(await validate(schema, 'free', 'x')).toBe('free')
    await expect(validate(schema, 'taken', 'x')).rejects.toEqual(refusal(/is taken/))
  })

  test('reports a schema that throws or rejects', async () => {
    const make = (run: () => never | Promise<never>): Schema => ({
      '~standard': { version: 1, vendor: 'test', validate: run },
    })
    const cause = new Error('no network')
    const throwing = make(() => {
      throw cause
    })
    expect(() => validate(throwing, 1, 'x')).toThrow(refusal(/its schema threw: no network/))
    await expect(
      validate(
        make(() => Promise.reject(cause)),
        1,
        'x',
      ),
    ).rejects.toMatchObject({ code: 'input.invalid', cause })
  })

  test('reports a schema that answers neither a value nor issues', async () => {
    const make = (answer: unknown): Schema => ({
      '~standard': { version: 1, vendor: 'test', validate: () => answer as never },
    })
    for (const answer of [undefined, null, 5, true, {}])
      expect(() => validate(make(answer), 1, 'x')).toThrow(refusal(/its schema answered .*Expected \{ value \}/))
    await expect(validate(make(Promise.resolve(undefined)), 1, 'x')).rejects.toEqual(refusal(/answered undefined/))
  })
})

test('input() lets everything through and carries the type', () => {
  const schema = input<{ tenantId: string }>()
  const value = { anything: 1 }
  expect(validate(schema, value, 'x')).toBe(value)
  expectTypeOf(schema).toEqualTypeOf<Schema<{ tenantId: string }, { tenantId: string }>>()
})
