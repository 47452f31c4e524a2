import { expect, test } from 'vitest'
import { SluiceError } from '../../src/base/errors.ts'
import { NonRetryable } from '../../src/jobs/handler-errors.ts'

test('NonRetryable is an error of Sluice with its own code, name and cause', () => {
  const cause = new Error('410 gone')
  const error = new NonRetryable('the tenant is closed', { cause })
  expect(error).toBeInstanceOf(SluiceError)
  expect(error).toMatchObject({
    name: 'NonRetryable',
    code: 'handler.nonretryable',
    message: 'the tenant is closed',
    cause,
  })
})
