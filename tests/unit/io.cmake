# Files and made-up data.
ringattn_add_test(test_npy SOURCES test_npy.c)
ringattn_add_test(test_generator SOURCES test_generator.c)
ringattn_add_test(test_storage SOURCES test_storage.c LINK test_support)
