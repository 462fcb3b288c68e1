#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Programs that use libibverbs, with libsoftrdma-preload.so in front of it."""
import os
import shutil
import tempfile
import unittest

from preload_run import PRELOAD, SOFTRDMA_RUN, environment, helper, run

CM_DEVICE = "/dev/infiniband/rdma_cm"
FAKE = helper("libsoftrdma-preload-fake.so")
CM_SENTENCE = "softrdma: rdma_cm failed: this machine has no " + CM_DEVICE


class Programs(unittest.TestCase):
    maxDiff = None

    def good(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    # Which way each function goes.

    def test_objects_of_other_devices_are_forwarded(self):
        result = run(helper("test_forward"), env=environment([FAKE], leaks=True))
        self.good(result)
        self.assertIn("has no ibv_query_ece@IBVERBS_1.10", result.stderr)
        self.assertIn("has no ibv_query_qp_data_in_order@IBVERBS_1.14", result.stderr)

    def test_objects_of_soft0_are_not(self):
        self.good(run(helper("test_ours"), env=environment([FAKE], leaks=True)))

    # Three ways of finding libibverbs.

    def check_linked(self, **more):
        env = environment([PRELOAD], leaks=True, **more)
        self.assertEqual(self.good(run(helper("loopback"), env=env)), "sent and read\n")

    def test_a_linked_program_sends_and_reads(self):
        self.check_linked()

    def test_a_linked_program_with_all_symbols_bound_at_its_start(self):
        self.check_linked(LD_BIND_NOW="1")

    def test_softrdma_run_gives_a_linked_program_soft0(self):
        result = run(SOFTRDMA_RUN, helper("loopback"), env=environment([]))
        self.assertEqual(self.good(result), "sent and read\n")

    def test_without_it_there_is_no_soft0(self):
        self.assertNotIn("soft0", self.good(run(helper("list_devices"))))

    def dlopen_user(self, *arguments, preload=(), **more):
        result = run(helper("dlopen_user"), *arguments, env=environment(preload, **more))
        self.assertEqual(self.good(result), "soft0\n")

    def test_a_program_that_loads_libibverbs_by_name(self):
        self.dlopen_user(preload=[PRELOAD])

    def test_a_program_that_loads_the_drop_in(self):
        self.dlopen_user(LD_LIBRARY_PATH=os.path.dirname(PRELOAD))

    def test_a_program_of_2006(self):
        self.dlopen_user("old", preload=[PRELOAD])

    # The list.

    def devices(self, *arguments, preload=(), **more):
        result = run(helper("list_devices"), *arguments, env=environment(preload, **more))
        return self.good(result).splitlines()

    def test_soft0_is_last_and_the_others_stay(self):
        alone = [line for line in self.devices() if not line.startswith("none:")]
        both = self.devices(preload=[PRELOAD])
        self.assertEqual(both[:-1], alone)
        self.assertTrue(both[-1].startswith("soft0 -1 "), both)
        self.assertNotEqual(both[-1].split()[2], "0" * 16)

    def test_opening(self):
        lines = self.devices("soft0", "soft1", preload=[PRELOAD])
        self.assertEqual(lines[-2:], ["soft0: opened", "soft1: no such device"])

    def pretended_sysfs(self, folder):
        files = {"class/infiniband_verbs/abi_version": "6",
                 "class/infiniband_verbs/uverbs0/ibdev": "rxe0",
                 "class/infiniband_verbs/uverbs0/dev": "231:192",
                 "class/infiniband_verbs/uverbs0/abi_version": "2",
                 "class/infiniband/rxe0/node_type": "1: CA",
                 "class/infiniband/rxe0/node_guid": "0123:4567:89ab:cdef"}
        for name, text in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text + "\n")
        return {"SYSFS_PATH": folder, "IBV_SHOW_WARNINGS": "1"}

    def test_with_a_real_device_and_all_drivers(self):
        """libibverbs loads each driver that is installed, to find one for the device."""
        pretend = helper("libpretend-uverbs.so")
        real = "rxe0 -1 0123456789abcdef"
        with tempfile.TemporaryDirectory() as folder:
            more = self.pretended_sysfs(folder)
            alone = self.devices("rxe0", preload=[pretend], **more)
            if real not in alone:
                self.skipTest("libibverbs takes no pretended device here: " + " ".join(alone))
            for now in ("", "1"):
                both = self.devices("rxe0", preload=[pretend, PRELOAD], LD_BIND_NOW=now, **more)
                self.assertEqual(both[0], real)
                self.assertTrue(both[1].startswith("soft0 "), both)
                self.assertEqual(both[2:], alone[1:])

    # rdma_cm.

    def cm(self, preload, *arguments, **more):
        result = run(helper("cm_user"), *arguments, env=environment(preload, **more))
        return self.good(result).splitlines(), result.stderr

    def test_rdma_cm_says_that_it_is_not_supported(self):
        there = os.path.exists(CM_DEVICE)
        code = "ENODEV" if there else "EOPNOTSUPP"
        lines, errors = self.cm([PRELOAD, helper("libfake-librdmacm.so")])
        self.assertEqual(lines, [f"rdma_create_event_channel {code}", f"rdma_create_id {code} 1",
                                 f"rdma_create_ep {code} 1"])
        self.assertEqual(errors.count("\n"), 0 if there else 1, errors)
        self.assertEqual(CM_SENTENCE in errors, not there, errors)

    def test_rdma_cm_works_where_it_works(self):
        fake = helper("libfake-librdmacm.so")
        for preload, arguments in (([PRELOAD, fake], []), ([PRELOAD], [fake])):
            lines, errors = self.cm(preload, *arguments, FAKE_CM_WORKS="1")
            self.assertEqual(lines, ["rdma_create_event_channel ok", "rdma_create_id ok 1",
                                     "rdma_create_ep ok 1"])
            self.assertEqual(errors, "")

    def test_rdma_cm_is_not_needed(self):
        lines, errors = self.cm([PRELOAD])
        self.assertEqual(lines, ["rdma_create_event_channel ENOSYS", "rdma_create_id ENOSYS 0",
                                 "rdma_create_ep ENOSYS 0"])
        self.assertEqual(errors.count("is librdmacm.so.1 loaded?"), 3, errors)

    # Programs of others, where they are installed. What they do on soft0: test_programs.py.

    def tool(self, name):
        if not shutil.which(name):
            self.skipTest(f"{name} is not installed")
        return name

    def soft_run(self, *command, **more):
        return run(SOFTRDMA_RUN, *command, env=environment([], **more))

    def test_a_program_with_the_libraries_of_drivers(self):
        """perftest is linked with libmlx5, libefa and librdmacm, which need more of libibverbs."""
        for now in ("", "1"):
            result = self.soft_run(self.tool("ib_read_bw"), "--version", LD_BIND_NOW=now)
            self.assertIn("Version", result.stdout + result.stderr)
            self.assertNotIn("symbol", result.stderr)


if __name__ == "__main__":
    unittest.main()
