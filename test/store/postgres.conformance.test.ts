import { storeConformance } from '../conformance/store/suite.ts'
import { postgresHarness } from './postgres-harness.ts'

storeConformance(postgresHarness('PostgreSQL'))
